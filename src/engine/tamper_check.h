// Defines TamperCheck: notices parameters that were changed, replaced or moved
// other than by the engine, and buffers that have another size. Every call of
// the engine begins with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shard/partition.h"

namespace zero::engine {

class TamperCheck {
 public:
  // Remembers the parameter as it is now.
  void accept(const shard::Parameter& parameter);
  void accept_all(); // those it knows, after a change by the engine
  // New values in the same memory. A replaced parameter stays noticed.
  void accept_values(const shard::Parameter& parameter);

  // Its values are the user's; its size and type are remembered.
  void accept_buffer(const shard::Parameter& buffer);

  // Throws: ConfigError naming every parameter that is not as it was.
  void check(const std::string& prefix) const;
  // Throws: ConfigError naming what the module has now in their place.
  void check_members(
      const std::string& prefix,
      const std::vector<shard::Parameter>& now) const;

 private:
  struct Mark {
    shard::Parameter parameter;
    const void* storage = nullptr;
    uint32_t version = 0;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  static Mark mark_of(const shard::Parameter& parameter);

  std::vector<Mark> marks_;
  std::vector<Mark> buffers_;
};

} // namespace zero::engine

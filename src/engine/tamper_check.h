// Defines TamperCheck: notices parameters that were changed, replaced or moved
// other than by the engine. Every call of the engine begins with it.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "shard/partition.h"

namespace zero::engine {

class TamperCheck {
 public:
  // Remembers the parameter as it is now.
  void accept(const shard::Parameter& parameter);
  void accept_all(); // those it knows, after a change by the engine
  // From now on its values may change, until they are accepted.
  void lend(const shard::Parameter& parameter);
  // New values in the same memory. A replaced parameter stays noticed.
  void accept_values(const shard::Parameter& parameter);

  // Throws: ConfigError naming every parameter that is not as it was.
  void check(const std::string& prefix) const;
  // Throws: ConfigError naming a parameter that the module has besides.
  void check_members(const std::string& prefix, const torch::nn::Module& module)
      const;

 private:
  struct Mark {
    shard::Parameter parameter;
    const void* storage = nullptr;
    uint32_t version = 0;
    bool lent = false;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  static Mark mark_of(const shard::Parameter& parameter);

  std::vector<Mark> marks_;
  std::unordered_set<const void*> known_; // the tensors of the marks
};

} // namespace zero::engine

// Defines BufferSync: gives every rank the buffers of rank 0, such as the
// running statistics of BatchNorm, which each rank keeps from its own batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/window_state.h"
#include "shard/partition.h"

namespace zero::engine {

class BufferSync {
 public:
  // Collective.
  BufferSync(
      std::vector<shard::Parameter> buffers,
      const std::shared_ptr<comm::Group>& group);

  // Throws: ConfigError naming a buffer that has another size or type than when
  // this was made. Values are the user's.
  void check(const std::string& prefix) const;

  // Rank 0 offers its buffers, as they are after so many rounds; after a
  // barrier the others take them. Rank 0 offers again after the next round
  // only, and no more before all have taken.
  void offer(uint64_t rounds) const;
  void take(uint64_t rounds) const;

  // The newest that are there whole, of those after so many rounds or fewer.
  std::optional<uint64_t> newest(uint64_t rounds) const;
  // Takes them, on rank 0 too.
  void restore(uint64_t rounds) const;

 private:
  struct Shape {
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes;
  };

  std::byte* place(uint64_t rounds) const;
  std::atomic<uint64_t>& stamp(uint64_t rounds) const;

  std::vector<shard::Parameter> buffers_;
  std::vector<Shape> shapes_; // as they were
  int rank_;
  int64_t bytes_; // there are two places for them, which take turns
  std::shared_ptr<comm::WindowState> window_;
};

} // namespace zero::engine

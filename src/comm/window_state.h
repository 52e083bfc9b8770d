// Defines what is behind a Window: one shared mapping, a part for each rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/shared_mapping.h"
#include "comm/shm/group.h"
#include "comm/traffic_counters.h"

namespace zero::comm {

// It does not keep the group: tensors in it do not keep a communicator alive.
struct WindowState {
  int rank = 0; // this one
  int size = 0;
  std::shared_ptr<TrafficCounters> traffic;
  std::shared_ptr<base::SharedMapping> mapping;
  std::vector<int64_t> bytes; // by rank
  std::vector<int64_t> offsets;

  std::byte* data(int rank) const {
    return mapping->data() + offsets[static_cast<size_t>(rank)];
  }

  bool contains(int rank, const std::byte* from, size_t size) const {
    const std::byte* begin = data(rank);
    const std::byte* end = begin + bytes[static_cast<size_t>(rank)];
    return from >= begin && from + size <= end && from <= end;
  }
};

// Collective. Throws: ConfigError, IoError.
std::shared_ptr<WindowState> make_window(
    const std::shared_ptr<Group>& group,
    int64_t bytes);

} // namespace zero::comm

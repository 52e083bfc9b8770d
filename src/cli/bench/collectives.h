// Defines the measurement behind `zero bench collectives`: how fast ranks talk,
// beside how fast a core copies memory while the other cores do so too.
#pragma once

#include <zero/world.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zero::cli {

struct BenchRow {
  std::string backend;
  std::string op;
  int ranks = 0;
  int64_t bytes = 0; // the full unsharded buffer
  double seconds = 0;

  double gigabytes_per_second() const {
    return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
  }
};

struct CollectivesBench {
  std::string backend;
  std::vector<int64_t> bytes;
  bool ordinary_memory = false; // else tensors lie in windows
  double seconds_per_size = 1; // for all operations of one size together
};

// Called by every rank. All operations of a size take turns, so that whatever
// else the machine does meets all of them. A row's time is the median over the
// rounds of the slowest rank's time. `report` is called on rank 0 for each row.
void bench_collectives(
    World& world,
    const CollectivesBench& bench,
    const std::function<void(const BenchRow&)>& report);

} // namespace zero::cli

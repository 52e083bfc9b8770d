// Defines the measurement behind `zero bench adam`: how fast Adam updates
// parameters, beside how fast this machine's memory is and torch's own Adam.
//
//   bench_adam({.numel = 1'000'000}, [](const AdamBenchRow& row) { ... });
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace zero::cli {

struct AdamBenchRow {
  std::string op;
  int64_t bytes = 0; // read and written, as the operation's text says
  double seconds = 0;

  double gigabytes_per_second() const {
    return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
  }
};

struct AdamBench {
  int64_t numel = 100'000'000; // parameters, of float32: 32 bytes each are used
  int rounds = 5; // at least 1
};

// Runs, in turn and on at::get_num_threads() threads:
//
//   triad           a = b + s * c, as STREAM does, in arrays that together are
//                   as large as Adam's
//   triad_streamed  the same with stores that pass by the caches, and so do not
//                   read `a` first: as fast as memory gets
//   zero_adam       this library's AdamW
//   torch_adam      at::_fused_adamw_, on the same tensors
//
// A row has the median of the rounds, after one that does not count. Blocks.
void bench_adam(
    const AdamBench& bench,
    const std::function<void(const AdamBenchRow&)>& report);

} // namespace zero::cli

// Defines what the operations of a communicator have cost this rank so far.
#pragma once

#include <zero/communicator.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace zero::comm {

// Thread-safe.
class TrafficCounters {
 public:
  void count(CommOp op, int64_t bytes_received) {
    auto& counter = counters_[static_cast<size_t>(op)];
    counter.calls += 1;
    counter.bytes_received += bytes_received;
  }
  OperationTraffic get(CommOp op) const {
    const auto& counter = counters_[static_cast<size_t>(op)];
    return {counter.calls, counter.bytes_received};
  }
  void reset() {
    for (auto& counter : counters_) {
      counter.calls = 0;
      counter.bytes_received = 0;
    }
  }

 private:
  struct Counter {
    std::atomic<int64_t> calls = 0;
    std::atomic<int64_t> bytes_received = 0;
  };
  std::array<Counter, kNumCommOps> counters_;
};

} // namespace zero::comm

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
  // Of what was counted, what came from another host.
  void count_from_other_hosts(int64_t bytes) {
    from_other_hosts_ += bytes;
  }
  int64_t from_other_hosts() const {
    return from_other_hosts_;
  }
  OperationTraffic get(CommOp op) const {
    const auto& counter = counters_[static_cast<size_t>(op)];
    return {counter.calls, counter.bytes_received};
  }
  void reset() {
    from_other_hosts_ = 0;
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
  std::atomic<int64_t> from_other_hosts_ = 0;
};

} // namespace zero::comm

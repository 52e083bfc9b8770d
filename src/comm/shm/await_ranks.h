// Defines await_ranks(): waits for what other ranks do when they come together,
// with a warning every few seconds and an error in the end. Used where there is
// no Progress yet, or none any more.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/shm/patience.h"

namespace zero::comm {

struct AwaitedRanks {
  int rank = 0; // this one
  int size = 0;
  std::string purpose; // "init", "shrink": for messages
  double timeout_seconds = 0;
  std::function<int()> missing; // who keeps it from being so
};

// `pause` is called between two looks at the condition.
// Throws: CommTimeout.
template <class Condition, class Pause>
void await_ranks(
    const AwaitedRanks& awaited,
    Condition condition,
    Pause pause) {
  const auto start = base::Clock::now();
  double next_warning = kWarningSeconds;
  while (!condition()) {
    pause();
    const double waited = base::seconds_since(start);
    if (waited >= awaited.timeout_seconds) {
      const int rank = awaited.missing();
      throw CommTimeout(
          c10::str(
              base::rank_prefix(awaited.rank, awaited.size),
              awaited.purpose,
              ": rank ",
              rank,
              " did not come within ",
              awaited.timeout_seconds,
              " s. Fix: have every rank call it, or raise "
              "ZERO_PROGRESS_TIMEOUT_SECONDS"),
          {rank, awaited.purpose, -1});
    }
    if (waited >= next_warning) {
      next_warning += kWarningSeconds;
      base::log_warning(
          awaited.rank,
          awaited.size,
          c10::str(
              awaited.purpose,
              ": waiting for rank ",
              awaited.missing(),
              " since ",
              static_cast<int>(waited),
              " s"));
    }
  }
}

} // namespace zero::comm

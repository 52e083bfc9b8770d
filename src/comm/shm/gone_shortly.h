// Defines gone_shortly(): whether a process whose memory cannot be reached is
// about to count as gone. A process loses its descriptors shortly before that.
#pragma once

#include <chrono>
#include <thread>

#include "base/clock.h"

namespace zero::comm {

template <class Gone>
bool gone_shortly(Gone gone) {
  constexpr double kPatienceSeconds = 5;
  const auto start = base::Clock::now();
  while (!gone() && base::seconds_since(start) < kPatienceSeconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return gone();
}

} // namespace zero::comm

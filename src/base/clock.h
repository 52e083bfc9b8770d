// Defines the one clock of the library: monotonic, untouched by clock jumps.
#pragma once

#include <chrono>

namespace zero::base {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Seconds = std::chrono::duration<double>;

inline double seconds_since(TimePoint start) {
  return Seconds(Clock::now() - start).count();
}

} // namespace zero::base

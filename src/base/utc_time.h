// Defines the time of day as files have it. What is measured is measured by
// base/clock.h.
#pragma once

#include <ctime>
#include <string>

namespace zero::base {

std::string in_utc(std::time_t time); // "2026-11-18T03:00:00Z"
std::string now_in_utc();

} // namespace zero::base

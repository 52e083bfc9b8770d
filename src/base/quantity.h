// Defines how numbers are shown to people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace zero::base {

std::string grouped(int64_t number); // 1,234,567
std::string counted(int64_t number, const char* noun); // "1 rank", "2 ranks"
std::string in_bytes(int64_t bytes); // "12.3 MB"
std::string in_short(double number); // "12.3 k": three digits and a unit
std::string in_time(double seconds); // "45 s", "3:07", "1:03:07"

// At least so many digits: names with it sort as the numbers do. Requires: no
// negative number.
std::string zero_padded(int64_t number, size_t digits); // "00042"

} // namespace zero::base

#include "base/quantity.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace zero::base {

namespace {

std::string formatted(const char* format, auto... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

} // namespace

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t place = text.size(); place > first + 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

std::string in_short(double number) {
  constexpr std::array kUnits{"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  while (std::abs(number) >= 999.5 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  const bool is_whole = unit == 0 && number == std::floor(number);
  const int digits = is_whole || std::abs(number) >= 99.95 ? 0
      : std::abs(number) >= 9.995                          ? 1
                                                           : 2;
  return formatted("%.*f", digits, number) + kUnits[unit];
}

std::string counted(int64_t number, const char* noun) {
  return grouped(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string in_bytes(int64_t bytes) {
  const std::string text = in_short(static_cast<double>(bytes));
  return text + (bytes < 1000 ? " B" : "B");
}

std::string in_time(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) {
    return formatted(seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  }
  return whole < 3600
      ? formatted("%lld:%02lld", whole / 60, whole % 60)
      : formatted(
            "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string zero_padded(int64_t number, size_t digits) {
  std::string text = std::to_string(number);
  text.insert(0, text.size() < digits ? digits - text.size() : 0, '0');
  return text;
}

} // namespace zero::base

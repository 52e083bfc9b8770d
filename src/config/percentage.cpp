#include "config/percentage.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace zero::config {

std::optional<double> parse_percentage(std::string_view text) {
  if (!text.ends_with('%')) {
    return std::nullopt;
  }
  text.remove_suffix(1);
  if (text.find_first_not_of("0123456789.") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string scaled = c10::str(text, "e-2");
  const char* end = scaled.data() + scaled.size();
  double share = 0;
  const auto parsed = std::from_chars(scaled.data(), end, share);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return std::nullopt;
  }
  return share;
}

std::string to_percentage(double share) {
  std::array<char, 400> buffer{}; // the smallest double has 324 zeros
  const auto written = std::to_chars(
      buffer.data(),
      buffer.data() + buffer.size(),
      share,
      std::chars_format::fixed);
  ZERO_CHECK(written.ec == std::errc(), share);
  // Moves the point two digits to the right.
  std::string digits(buffer.data(), written.ptr);
  size_t point = std::min(digits.find('.'), digits.size());
  digits.erase(point, 1);
  point += 2;
  digits.resize(std::max(digits.size(), point), '0');
  std::string whole = digits.substr(0, point);
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  const std::string fraction = digits.substr(point);
  return whole + (fraction.empty() ? "" : "." + fraction) + "%";
}

} // namespace zero::config

#include "base/utc_time.h"

#include <array>

namespace zero::base {

std::string in_utc(std::time_t time) {
  std::tm parts = {};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string now_in_utc() {
  return in_utc(std::time(nullptr));
}

} // namespace zero::base

#include "config/wording.h"

#include <array>
#include <charconv>

#include "base/error.h"

namespace zero::config {

namespace {

constexpr size_t kMaxShown = 60;

bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

std::string escaped(unsigned char byte) {
  constexpr const char* kDigits = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 0xFU]};
}

} // namespace

std::string printable(std::string_view text, bool ascii_only) {
  size_t end = text.size();
  if (end > kMaxShown) {
    end = kMaxShown;
    while (end > 0 && is_inside_character(text[end])) {
      --end; // not half of a character
    }
  }
  std::string result;
  for (const char byte : text.substr(0, end)) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7F || (ascii_only && code >= 0x80)) {
      result += escaped(code);
    } else {
      result += byte;
    }
  }
  return end < text.size() ? result + "..." : result;
}

std::string in_quotes(std::string_view text) {
  return c10::str('"', printable(text), '"');
}

std::string shown(double number) {
  std::array<char, 32> buffer{};
  const auto written =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), written.ptr};
}

std::string either(const std::vector<std::string>& words) {
  std::string result;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) {
      result += i + 1 == words.size() ? " or " : ", ";
    }
    result += words[i];
  }
  return result;
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> result;
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (end > 0) {
      result.emplace_back(words.substr(0, end));
    }
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return result;
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') {
      letter = static_cast<char>(letter - 'A' + 'a');
    }
  }
  return result;
}

} // namespace zero::config

// Defines how tests look at what a call throws.
#pragma once

#include <exception>
#include <string>

namespace zero::test {

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace zero::test

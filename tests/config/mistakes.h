// Defines what tests ask of configurations that are wrong.
#pragma once

#include <gtest/gtest.h>
#include <zero/config.h>
#include <zero/error.h>

#include <string>

namespace zero::config {

// The message of the ConfigError, or nothing if there is none.
inline std::string mistakes_of(const std::string& text) {
  try {
    Config::from_json(text, "zero.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

inline size_t num_lines(const std::string& text) {
  size_t count = text.empty() ? 0 : 1;
  for (const char letter : text) {
    count += letter == '\n' ? 1 : 0;
  }
  return count;
}

inline testing::AssertionResult mentions(
    const std::string& message,
    const std::string& part) {
  if (message.find(part) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "\"" << part << "\" is not in:\n"
                                     << message;
}

// One mistake, and this is what it says.
inline testing::AssertionResult has_one_mistake(
    const std::string& text,
    const std::string& part) {
  const std::string message = mistakes_of(text);
  if (num_lines(message) != 1) {
    return testing::AssertionFailure()
        << "expected one mistake in " << text << ", got:\n"
        << message;
  }
  return mentions(message, part);
}

inline testing::AssertionResult has_no_mistake(const std::string& text) {
  const std::string message = mistakes_of(text);
  if (message.empty()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << text << ":\n" << message;
}

} // namespace zero::config

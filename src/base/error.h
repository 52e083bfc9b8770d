// Defines how the library builds the text of its errors.
//
//   throw IoError(system_message("memfd_create", errno, "no shared memory"));
//   ZERO_CHECK_EQ(slots.size(), expected);
#pragma once

#include <c10/util/StringUtil.h>
#include <zero/error.h>

#include <exception>
#include <string>

namespace zero::base {

// "what: call failed: errno's text (errno 13)"
std::string system_message(
    const std::string& what,
    const std::string& call,
    int errno_value);

// What an error says; of libtorch's without the stack that it appends.
std::string message_of(const std::exception& error);

// Ends the program's faith in itself: for states that no input can cause.
[[noreturn]] void fail_check(
    const char* file,
    int line,
    const std::string& message);

} // namespace zero::base

#define ZERO_CHECK(condition, ...)                                      \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::zero::base::fail_check(                                         \
          __FILE__, __LINE__, c10::str(#condition " ", ##__VA_ARGS__)); \
    }                                                                   \
  } while (false)

#define ZERO_CHECK_EQ(a, b)                                            \
  do {                                                                 \
    const auto& check_a = (a);                                         \
    const auto& check_b = (b);                                         \
    if (!(check_a == check_b)) {                                       \
      ::zero::base::fail_check(                                        \
          __FILE__,                                                    \
          __LINE__,                                                    \
          c10::str(#a " == " #b ": got ", check_a, " and ", check_b)); \
    }                                                                  \
  } while (false)

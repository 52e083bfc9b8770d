#include "base/error.h"

#include <c10/util/Exception.h>

#include <cstring>

namespace zero::base {

std::string system_message(
    const std::string& what,
    const std::string& call,
    int errno_value) {
  return c10::str(
      what,
      ": ",
      call,
      " failed: ",
      std::strerror(errno_value),
      " (errno ",
      errno_value,
      ")");
}

std::string message_of(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  return of_libtorch == nullptr ? error.what()
                                : of_libtorch->what_without_backtrace();
}

void fail_check(const char* file, int line, const std::string& message) {
  throw Error(c10::str(
      "internal error at ",
      file,
      ":",
      line,
      ": ",
      message,
      ". Fix: this is a bug in libzero, please report it"));
}

} // namespace zero::base

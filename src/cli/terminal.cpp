#include "cli/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace zero::cli {

namespace {

constexpr const char* kTerminalVariable = "ZERO_TERMINAL";

} // namespace

void pass_terminal_on() {
  if (::isatty(STDOUT_FILENO) == 1) {
    const int copy = ::dup(STDOUT_FILENO); // stays open in what is executed
    ::setenv(kTerminalVariable, std::to_string(copy).c_str(), 1);
  } else {
    ::unsetenv(kTerminalVariable);
  }
}

int inherited_terminal() {
  if (::isatty(STDOUT_FILENO) == 1) {
    return STDOUT_FILENO;
  }
  const char* text = std::getenv(kTerminalVariable);
  const int fd = text == nullptr ? -1 : std::atoi(text);
  return fd >= 0 && ::isatty(fd) == 1 ? fd : -1;
}

} // namespace zero::cli

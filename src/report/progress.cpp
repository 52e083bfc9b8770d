#include "report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "base/quantity.h"

namespace zero::report {

namespace {

constexpr double kSecondsBetweenBars = 0.1;
constexpr const char* kClearLine = "\r\x1b[K";

int64_t columns_of(int terminal) {
  struct winsize size = {};
  const bool known = ::ioctl(terminal, TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? size.ws_col : 80;
}

} // namespace

std::string bar_text(
    int64_t step,
    int64_t num_steps,
    double seconds,
    int64_t columns,
    std::string_view unit) {
  const double share = static_cast<double>(step) /
      static_cast<double>(std::max<int64_t>(1, num_steps));
  std::string tail = c10::str(
      "  ",
      static_cast<int>(100 * share),
      " %  ",
      unit,
      " ",
      base::grouped(step),
      "/",
      base::grouped(num_steps));
  if (step > 0) {
    tail += c10::str("  ", base::in_time(seconds * (1 / share - 1)), " left");
  }
  const int64_t room = columns - static_cast<int64_t>(tail.size()) - 3;
  if (room < 5) { // no place for a bar
    return tail.substr(
        2, static_cast<size_t>(std::max<int64_t>(0, columns - 1)));
  }
  const auto width = static_cast<size_t>(std::min<int64_t>(room, 40));
  const auto done =
      static_cast<size_t>(share * static_cast<double>(width) + 1e-9);
  return c10::str(
      "[", std::string(done, '#'), std::string(width - done, '-'), "]", tail);
}

Progress::Progress(int terminal_fd, std::string unit)
    : terminal_(
          terminal_fd >= 0 && ::isatty(terminal_fd) == 1 ? terminal_fd : -1),
      unit_(std::move(unit)),
      has_colours_(terminal_ >= 0 && std::getenv("NO_COLOR") == nullptr) {}

Progress::~Progress() {
  if (!bar_.empty()) {
    write(kClearLine);
  }
}

// What cannot be shown is no reason to stop training; who writes to a file
// instead is told at the end of the program, which looks at the stream.
void Progress::write(std::string_view text) const {
  if (terminal_ >= 0) {
    base::write_all(terminal_, text);
  } else {
    std::cout << text << std::flush;
  }
}

void Progress::line(std::string_view text) {
  write(c10::str(bar_.empty() ? "" : kClearLine, text, "\n", bar_));
}

void Progress::bar(int64_t step, int64_t num_steps, double seconds) {
  if (terminal_ < 0) {
    return;
  }
  bar_ = bar_text(step, num_steps, seconds, columns_of(terminal_), unit_);
  const bool is_last = step == num_steps;
  if (is_last || base::seconds_since(drawn_) >= kSecondsBetweenBars) {
    drawn_ = base::Clock::now();
    write(kClearLine + bar_);
  }
}

std::string Progress::strong(std::string_view text) const {
  return has_colours_ ? c10::str("\x1b[1m", text, "\x1b[0m")
                      : std::string(text);
}

std::string Progress::faint(std::string_view text) const {
  return has_colours_ ? c10::str("\x1b[2m", text, "\x1b[0m")
                      : std::string(text);
}

} // namespace zero::report

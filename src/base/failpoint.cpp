#include "base/failpoint.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace zero::base {

namespace detail {

namespace {

constexpr const char* kVariable = "ZERO_FAILPOINT";

struct Failpoint {
  std::string name;
  std::string action;
  int64_t at = 1;
  std::atomic<int64_t> times = 0;
};

// A test that names what does not exist would pass for the wrong reason.
[[noreturn]] void refuse(std::string_view text) {
  std::fprintf(
      stderr,
      "%s: '%.*s' is not name:action[@times][:rank] with an action of kill, "
      "stop, term, enospc or eio\n",
      kVariable,
      static_cast<int>(text.size()),
      text.data());
  std::_Exit(2);
}

std::string_view take_until(std::string_view& text, char end) {
  const size_t found = text.find(end);
  const std::string_view taken = text.substr(0, found);
  text = found == std::string_view::npos ? std::string_view()
                                         : text.substr(found + 1);
  return taken;
}

bool is_known(std::string_view action) {
  return action == "kill" || action == "stop" || action == "term" ||
      action == "enospc" || action == "eio";
}

void add(std::deque<Failpoint>& all, std::string_view text) {
  std::string_view rest = text;
  const auto name = take_until(rest, ':');
  auto action = take_until(rest, ':');
  const auto rank = rest;
  auto times = action;
  action = take_until(times, '@');
  int64_t at = 1;
  const char* end = times.data() + times.size();
  const auto parsed = std::from_chars(times.data(), end, at);
  const bool is_time = times.empty() ||
      (parsed.ec == std::errc() && parsed.ptr == end && at > 0);
  const bool is_rank =
      rank.find_first_not_of("0123456789") == std::string_view::npos;
  if (name.empty() || !is_known(action) || !is_time || !is_rank) {
    refuse(text);
  }
  // One that was started in place of a lost rank has a number of its own.
  const char* newcomer = std::getenv("ZERO_NEWCOMER");
  const char* own_rank =
      newcomer != nullptr ? newcomer : std::getenv("ZERO_RANK");
  if (!rank.empty() && rank != (own_rank == nullptr ? "0" : own_rank)) {
    return;
  }
  auto& point = all.emplace_back();
  point.name = name;
  point.action = action;
  point.at = at;
}

void add_all(std::deque<Failpoint>& all, std::string_view text) {
  while (!text.empty()) {
    add(all, take_until(text, ','));
  }
}

std::deque<Failpoint>& failpoints() {
  static std::deque<Failpoint> all = [] {
    std::deque<Failpoint> found;
    const char* variable = std::getenv(kVariable);
    add_all(found, variable == nullptr ? "" : variable);
    return found;
  }();
  return all;
}

} // namespace

bool has_failpoints = std::getenv(kVariable) != nullptr;

int hit_failpoint(const char* name) {
  for (Failpoint& point : failpoints()) {
    if (point.name != name || ++point.times != point.at) {
      continue;
    }
    if (point.action == "kill") {
      std::raise(SIGKILL);
    } else if (point.action == "stop") {
      std::raise(SIGSTOP);
    } else if (point.action == "term") {
      ::kill(::getpid(), SIGTERM);
    } else {
      return point.action == "enospc" ? ENOSPC : EIO;
    }
  }
  return 0;
}

} // namespace detail

void set_failpoints(std::string_view text) {
  detail::has_failpoints = true;
  detail::failpoints().clear();
  detail::add_all(detail::failpoints(), text);
}

} // namespace zero::base

#include "tasks/stop_request.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

namespace zero::tasks {

namespace {

// Milliseconds of the clock at the first request; 0: there was none.
std::atomic<int64_t> first_request = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);

// One request may come twice: timeout(1) tells the process and its group.
constexpr int64_t kSecondRequestMilliseconds = 500;

constexpr std::initializer_list<int> kStopSignals{SIGINT, SIGTERM, SIGHUP};

extern "C" void request_stop(int signal) {
  struct timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  int64_t none = 0;
  if (!first_request.compare_exchange_strong(none, milliseconds) &&
      milliseconds - none >= kSecondRequestMilliseconds) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

} // namespace

StopRequest::StopRequest() {
  first_request = 0;
  for (const int signal : kStopSignals) {
    struct sigaction before = {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) {
      continue;
    }
    struct sigaction action = {};
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
    before_.emplace_back(signal, before);
  }
}

StopRequest::~StopRequest() {
  for (const auto& [signal, before] : before_) {
    ::sigaction(signal, &before, nullptr);
  }
}

bool StopRequest::is_made() const {
  return first_request != 0;
}

} // namespace zero::tasks

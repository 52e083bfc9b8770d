#include "tasks/stop_request.h"

#include <csignal>
#include <initializer_list>

namespace zero::tasks {

namespace {

volatile std::sig_atomic_t stop_was_requested = 0;

constexpr std::initializer_list<int> kStopSignals{SIGINT, SIGTERM, SIGHUP};

extern "C" void request_stop(int /*signal*/) {
  stop_was_requested = 1;
}

} // namespace

StopRequest::StopRequest() {
  stop_was_requested = 0;
  for (const int signal : kStopSignals) {
    struct sigaction before = {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) {
      continue;
    }
    struct sigaction action = {};
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART | SA_RESETHAND;
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
  return stop_was_requested != 0;
}

} // namespace zero::tasks

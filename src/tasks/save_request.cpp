#include "tasks/save_request.h"

#include <atomic>

namespace zero::tasks {

namespace {

std::atomic<bool> is_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void request_save(int /*signal*/) {
  is_requested = true;
}

} // namespace

SaveRequest::SaveRequest() {
  is_requested = false;
  struct sigaction action = {};
  action.sa_handler = request_save;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, &before_);
}

SaveRequest::~SaveRequest() {
  ::sigaction(SIGUSR1, &before_, nullptr);
}

bool SaveRequest::take() {
  return is_requested.exchange(false);
}

} // namespace zero::tasks

#include "comm/net/meeting_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "comm/shm/patience.h"

namespace zero::comm {

namespace {

std::string complaint(double seconds) {
  return c10::str(
      "init: on host ",
      base::host_name(),
      ", the ranks have not met over MPI for ",
      seconds,
      " s. Fix: see that all of them run, and that the hosts reach each other "
      "by the interface that MPI uses (mpirun --mca btl_tcp_if_include, or "
      "UCX_NET_DEVICES; docs/clusters.md)");
}

} // namespace

MeetingWatch::MeetingWatch(int rank, int size, double limit_seconds)
    : thread_([=, this] { run(rank, size, limit_seconds); }) {}

MeetingWatch::~MeetingWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void MeetingWatch::run(int rank, int size, double limit_seconds) {
  std::unique_lock lock(mutex_);
  for (double waited = 0; waited < limit_seconds;) {
    const double next = std::min(kWarningSeconds, limit_seconds - waited);
    if (changed_.wait_for(
            lock, base::Seconds(next), [this] { return is_over_; })) {
      return;
    }
    waited += next;
    base::log_warning(rank, size, complaint(waited));
  }
  // The thread that waits is inside MPI, and nothing brings it back.
  std::_Exit(EXIT_FAILURE);
}

} // namespace zero::comm

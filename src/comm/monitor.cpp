#include "comm/monitor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace zero::comm {

using base::Clock;
using base::Seconds;

namespace {

// Beyond the timeout, by which its own host kills and tells of a silent rank.
constexpr Seconds kTimeToBeTold(1);

int pidfd_open(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

// The second way is for where the first one is forbidden: the process was there
// a moment ago, since its pidfd has not become readable.
// By number only where the other is forbidden: it is still there then, since
// nobody but its parent has waited for it.
bool kill_process(int pidfd, pid_t pid) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0) {
    return true;
  }
  return (errno == EPERM || errno == ENOSYS) && ::kill(pid, SIGKILL) == 0;
}

} // namespace

Monitor::Monitor(
    Roster roster,
    int id,
    double timeout_seconds,
    std::shared_ptr<const Outside> outside)
    : roster_(std::move(roster)),
      id_(id),
      timeout_seconds_(timeout_seconds),
      outside_(std::move(outside)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      peers_(static_cast<size_t>(roster_.num_ids())) {
  if (!stop_.valid()) {
    throw IoError(base::system_message(
        "cannot start the heartbeat. Fix: raise the limit of open files "
        "(ulimit -n), or allow eventfd to this process",
        "eventfd",
        errno));
  }
  // Found out now rather than when a rank dies and nobody notices.
  if (!base::UniqueFd(pidfd_open(::getpid())).valid()) {
    throw IoError(base::system_message(
        "cannot watch processes. Fix: use Linux 5.3 or newer, and allow "
        "pidfd_open to this process",
        "pidfd_open",
        errno));
  }
  roster_.beat(id_);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw IoError(c10::str(
        "cannot start the heartbeat: no thread: ",
        error.what(),
        ". Fix: raise the limit of processes (ulimit -u)"));
  }
}

Monitor::~Monitor() {
  const uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void Monitor::run() {
  auto last = Clock::now();
  for (;;) {
    roster_.beat(id_);
    if (outside_ != nullptr) {
      outside_->tell_heartbeat(roster_, id_);
    }
    const auto now = Clock::now();
    // This process was itself stopped, or starved: silence heard meanwhile says
    // nothing about the others.
    const bool was_away = now - last > timeout() / 2;
    last = now;
    peers_.resize(static_cast<size_t>(roster_.num_ids()));
    for (int peer = 0; peer < num_peers(); ++peer) {
      auto& seen = peers_[static_cast<size_t>(peer)];
      if (peer == id_ || roster_.state(peer) != MemberState::alive) {
        continue;
      }
      if (!seen.watched) {
        watch(peer);
      } else if (was_away) {
        seen.heard = now;
      } else {
        check_heartbeat(peer, now);
      }
    }
    pollfd stop{stop_.get(), POLLIN, 0};
    if (::poll(&stop, 1, 0) > 0) {
      return;
    }
    wait_for_an_exit();
  }
}

void Monitor::watch(int peer) {
  auto& seen = peers_[static_cast<size_t>(peer)];
  const pid_t pid = roster_.pid(peer);
  // A thread of this process lives and dies with us.
  if (is_here(peer) && pid != ::getpid()) {
    seen.pidfd = base::UniqueFd(pidfd_open(pid));
    if (!seen.pidfd.valid()) {
      if (errno == ESRCH) {
        mark_lost(peer);
      }
      return; // out of descriptors, perhaps: tried again with the next beat
    }
  }
  seen.watched = true;
  seen.heard = Clock::now();
  seen.heartbeat = roster_.heartbeat(peer);
}

void Monitor::check_heartbeat(int peer, base::TimePoint now) {
  auto& seen = peers_[static_cast<size_t>(peer)];
  const uint64_t heartbeat = roster_.heartbeat(peer);
  if (heartbeat != seen.heartbeat) {
    seen.heartbeat = heartbeat;
    seen.heard = now;
    return;
  }
  if (!is_here(peer) && now - seen.heard > timeout() + kTimeToBeTold) {
    give_up(peer);
  }
  if (seen.condemned || !seen.pidfd.valid() || now - seen.heard < timeout()) {
    return;
  }
  base::log_warning(
      id_,
      roster_.size(),
      c10::str(
          peer < roster_.size() ? "rank " : "newcomer ",
          peer,
          " (process ",
          roster_.pid(peer),
          ") gave no sign of life for ",
          timeout().count(),
          " s: it is killed and counts as lost"));
  roster_.note_silent(peer); // before its end can be noticed
  seen.heard = now; // if it could not be killed, it is tried again later
  seen.condemned = kill_process(seen.pidfd.get(), roster_.pid(peer));
}

void Monitor::give_up(int peer) {
  base::log_warning(
      id_,
      roster_.size(),
      c10::str(
          "nothing has come from rank ",
          peer,
          " on another host for ",
          timeout().count(),
          " s: it counts as lost"));
  roster_.note_silent(peer); // before it counts as lost
  roster_.mark_lost(peer);
}

void Monitor::mark_lost(int peer) {
  roster_.mark_lost(peer);
  if (outside_ != nullptr) {
    outside_->tell_status(roster_, peer);
  }
}

// Sleeps until the next heartbeat is due, or a watched process ends.
void Monitor::wait_for_an_exit() {
  std::vector<pollfd> descriptors{{stop_.get(), POLLIN, 0}};
  std::vector<int> ids{id_};
  for (int peer = 0; peer < num_peers(); ++peer) {
    const auto& seen = peers_[static_cast<size_t>(peer)];
    if (seen.pidfd.valid() && roster_.state(peer) == MemberState::alive) {
      descriptors.push_back({seen.pidfd.get(), POLLIN, 0});
      ids.push_back(peer);
    }
  }
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::min(base::Seconds(0.1), this->timeout() / 10));
  ::poll(
      descriptors.data(),
      descriptors.size(),
      std::max(1, static_cast<int>(timeout.count())));
  for (size_t i = 1; i < descriptors.size(); ++i) {
    if ((descriptors[i].revents & POLLIN) != 0) {
      mark_lost(ids[i]);
    }
  }
}

} // namespace zero::comm

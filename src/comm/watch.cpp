#include "comm/watch.h"

#include <sched.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/shm/patience.h"

namespace zero::comm {

Watch::Watch(std::shared_ptr<Group> group)
    : group_(std::move(group)),
      may_spin_(
          group_->membership()->roster().size() <= base::available_cores()) {}

void Watch::wait(
    Doorbell& own_bell,
    const std::function<bool()>& done,
    const Awaiting& awaiting) const {
  const int yields = may_spin_ ? kYields : kCrowdedYields;
  for (int i = 0; i < yields; ++i) {
    if (done()) {
      return;
    }
    ::sched_yield();
  }
  const double limit = group_->membership()->progress_timeout_seconds();
  const auto start = base::Clock::now();
  double next_warning = kWarningSeconds;
  bool is_done = false;
  while (!is_done) {
    throw_if_lost(done, awaiting, is_done);
    if (is_done) {
      return;
    }
    own_bell.wait_for_news([&] { return is_done = done(); }, kSleep);
    const double waited = base::seconds_since(start);
    if (!is_done && waited >= limit) {
      throw_timeout(awaiting);
    }
    if (!is_done && waited >= next_warning) {
      next_warning += kWarningSeconds;
      warn_late(awaiting, waited);
    }
  }
}

void Watch::throw_if_lost(
    const std::function<bool()>& done,
    const Awaiting& awaiting,
    bool& is_done) const {
  const auto lost = group_->lost_ranks();
  // In this order: what a rank did before it was lost still counts.
  is_done = done();
  if (is_done || lost.empty()) {
    return;
  }
  throw PeerLost(
      c10::str(
          base::rank_prefix(group_->rank(), group_->size()),
          awaiting.what,
          " #",
          awaiting.sequence,
          ": rank ",
          lost.front(),
          " is lost: ",
          group_->epitaph(lost.front()),
          ". Fix: start the job again from its last checkpoint"),
      {lost.front(), awaiting.what, awaiting.sequence});
}

void Watch::warn_late(const Awaiting& awaiting, double seconds) const {
  const auto ranks = awaiting.awaited();
  base::log_warning(
      group_->rank(),
      group_->size(),
      c10::str(
          ranks.size() == 1 ? "rank " : "ranks ",
          c10::Join(", ", ranks),
          ranks.size() == 1 ? " is" : " are",
          " late: awaited for ",
          static_cast<int>(seconds),
          " s in ",
          awaiting.what,
          " #",
          awaiting.sequence));
}

void Watch::throw_timeout(const Awaiting& awaiting) const {
  const auto ranks = awaiting.awaited();
  throw CommTimeout(
      c10::str(
          base::rank_prefix(group_->rank(), group_->size()),
          awaiting.what,
          " #",
          awaiting.sequence,
          ": waited ",
          group_->membership()->progress_timeout_seconds(),
          " s for ranks ",
          c10::Join(", ", ranks),
          ", which are alive. Fix: make sure every rank calls it, or raise "
          "progress_timeout_seconds"),
      {ranks.empty() ? -1 : ranks.front(), awaiting.what, awaiting.sequence});
}

} // namespace zero::comm

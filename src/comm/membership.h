// Defines Membership: this rank's place in the world, for as long as anything
// here needs it. It beats while it lives, and says goodbye when it ends.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "comm/monitor.h"
#include "comm/net/outside.h"
#include "comm/roster.h"

namespace zero::comm {

// InitOptions with every value decided.
struct CommSettings {
  double timeout_seconds = 10;
  double progress_timeout_seconds = 1800;
  bool verify = true;
};

class Membership {
 public:
  // `outside` is null on one host. Throws: ConfigError when the id is out of
  // range or already taken.
  Membership(
      Roster roster,
      int id,
      CommSettings settings,
      std::shared_ptr<const Outside> outside = nullptr)
      : roster_((roster.join(id, settings.verify), std::move(roster))),
        id_(id),
        verifies_(settings.verify),
        progress_timeout_seconds_(settings.progress_timeout_seconds),
        outside_(std::move(outside)),
        monitor_(roster_, id, settings.timeout_seconds, outside_) {
    tell_status();
  }
  ~Membership() {
    roster_.leave(id_);
    tell_status();
    if (outside_ != nullptr) { // while the monitor watches them
      outside_->leave_with_the_others(roster_, id_);
    }
  }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Roster& roster() {
    return roster_;
  }
  int id() const {
    return id_;
  }
  const std::shared_ptr<const Outside>& outside() const {
    return outside_;
  }
  bool verifies() const {
    return verifies_;
  }
  double progress_timeout_seconds() const {
    return progress_timeout_seconds_;
  }

  // Groups that exist keep their progress timeout.
  void set_timeout(double seconds) {
    monitor_.set_timeout(seconds);
  }
  void set_progress_timeout(double seconds) {
    progress_timeout_seconds_ = seconds;
  }

 private:
  void tell_status() const {
    if (outside_ != nullptr) {
      outside_->tell_status(roster_, id_);
    }
  }

  Roster roster_;
  int id_;
  bool verifies_;
  std::atomic<double> progress_timeout_seconds_;
  std::shared_ptr<const Outside> outside_;
  Monitor monitor_;
};

} // namespace zero::comm

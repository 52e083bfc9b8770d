// Defines Membership: this rank's place in the world, for as long as anything
// here needs it. It beats while it lives, and says goodbye when it ends.
#pragma once

#include <string>
#include <utility>

#include "comm/monitor.h"
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
  // Throws: ConfigError when the id is out of range or already taken.
  Membership(Roster roster, int id, CommSettings settings)
      : roster_((roster.join(id, settings.verify), std::move(roster))),
        id_(id),
        settings_(settings),
        monitor_(roster_, id, settings.timeout_seconds) {}
  ~Membership() {
    roster_.leave(id_);
  }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Roster& roster() {
    return roster_;
  }
  int id() const {
    return id_;
  }
  const CommSettings& settings() const {
    return settings_;
  }

 private:
  Roster roster_;
  int id_;
  CommSettings settings_;
  Monitor monitor_;
};

} // namespace zero::comm

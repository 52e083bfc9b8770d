// Defines how the launcher receives signals: through a descriptor it can poll,
// one after the other, never in a handler. Also the names of signals.
//
//   LaunchSignals signals;             // blocks them from here on
//   poll(signals.fd()); while (auto signal = signals.next()) ...
//
// Made once by the front before it forks; the supervisor, its child, reads its
// own signals from the same object. Single-threaded.
#pragma once

#include <signal.h> // NOLINT(modernize-deprecated-headers): sigaction

#include <array>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace zero::launch {

// "SIGSEGV"; "signal 40" for one without a name.
std::string signal_name(int signal);

class LaunchSignals {
 public:
  // Takes SIGCHLD and everything a user sends to a job. A signal that was
  // ignored, as SIGHUP is under nohup, stays ignored.
  LaunchSignals();

  // Gives everything back as it was.
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  // Readable when next() has a signal to give.
  int fd() const {
    return fd_.get();
  }

  // The next signal of this process that has arrived, if any.
  std::optional<int> next() const;

  // Async-signal-safe, for a child between fork and exec.
  void restore() const;

 private:
  struct Saved {
    int signal;
    struct sigaction action;
  };

  std::array<Saved, 3> saved_{};
  sigset_t saved_mask_{};
  base::UniqueFd fd_;
};

} // namespace zero::launch

#include "launch/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace zero::launch {

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? c10::str("signal ", signal) : c10::str("SIG", name);
}

LaunchSignals::LaunchSignals() {
  // SIGCHLD may come ignored from whoever started us, which would make exit
  // codes vanish. A closed pipe is reported by write(). The supervisor is a
  // background process to the terminal, and writes to it nevertheless.
  saved_[0].signal = SIGCHLD;
  saved_[1].signal = SIGPIPE;
  saved_[2].signal = SIGTTOU;
  for (auto& saved : saved_) {
    struct sigaction action {};
    action.sa_handler = saved.signal == SIGCHLD ? SIG_DFL : SIG_IGN;
    ::sigaction(saved.signal, &action, &saved.action);
  }

  sigset_t taken{};
  ::sigemptyset(&taken);
  ::sigaddset(&taken, SIGCHLD);
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) {
      ::sigaddset(&taken, signal);
    }
  }
  ::sigprocmask(SIG_BLOCK, &taken, &saved_mask_);
  fd_ = base::UniqueFd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.valid()) {
    const int error = errno;
    restore();
    throw IoError(base::system_message(
        "cannot receive signals. Fix: raise the limit of open files "
        "(ulimit -n), or allow signalfd to this process",
        "signalfd",
        error));
  }
}

LaunchSignals::~LaunchSignals() {
  restore();
}

std::optional<int> LaunchSignals::next() const {
  signalfd_siginfo info{};
  const ssize_t got = ::read(fd_.get(), &info, sizeof(info));
  if (got != static_cast<ssize_t>(sizeof(info))) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

void LaunchSignals::restore() const {
  for (const auto& saved : saved_) {
    ::sigaction(saved.signal, &saved.action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &saved_mask_, nullptr);
}

} // namespace zero::launch

#include "launch/run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "comm/roster.h"
#include "launch/descendants.h"
#include "launch/signals.h"
#include "launch/supervisor.h"

namespace zero::launch {

namespace {

constexpr double kMaxGraceSeconds = 1e6;

void check(const RunOptions& options) {
  if (options.num_ranks < 1 || options.num_ranks > comm::kMaxRanks) {
    throw ConfigError(c10::str(
        "cannot start ",
        options.num_ranks,
        " ranks: expected 1 to ",
        comm::kMaxRanks,
        ". Fix: -n with a number in that range"));
  }
  if (options.command.empty() || options.command[0].empty()) {
    throw ConfigError(
        "no program to run. Fix: name one, as in zero run -n 2 ./train");
  }
  if (!(options.grace_seconds >= 0 &&
        options.grace_seconds <= kMaxGraceSeconds)) {
    throw ConfigError(c10::str(
        "cannot wait ",
        options.grace_seconds,
        " seconds for ranks to end: expected 0 to ",
        kMaxGraceSeconds,
        ". Fix: --grace with a number in that range"));
  }
}

// What is left of a job is found, and ended, by what /proc says of processes.
void check_proc() {
  std::array<char, 32> self{};
  const auto length = ::readlink("/proc/self", self.data(), self.size() - 1);
  if (length <= 0 || std::atoi(self.data()) != ::getpid()) {
    throw IoError(
        "/proc is missing or belongs to another PID namespace, so processes "
        "cannot be told apart. Fix: mount it, for example by unshare "
        "--mount-proc or in the container's configuration");
  }
}

// A pipe opened where standard input, output or error is missing would take
// its number, and be taken for it.
void open_missing_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) {
      // The lowest number that is free: this one.
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDWR);
    }
  }
}

// Becomes a subreaper for its lifetime; see Note [Nothing is left].
class Subreaper {
 public:
  Subreaper() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Subreaper() {
    ::prctl(PR_SET_CHILD_SUBREAPER, before_);
  }
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;

 private:
  int before_ = 0;
};

// Passes signals on until the supervisor has ended; returns its wait status.
int wait_for_supervisor(pid_t supervisor, const LaunchSignals& signals) {
  while (true) {
    pollfd descriptor{signals.fd(), POLLIN, 0};
    ::poll(&descriptor, 1, -1);
    while (const auto signal = signals.next()) {
      if (*signal != SIGCHLD) {
        ::kill(supervisor, *signal);
      }
      if (*signal == SIGTSTP) {
        // The shell takes over when it sees us stopped; `fg` sends SIGCONT.
        ::raise(SIGSTOP);
      }
    }
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (ended == supervisor) {
        return status;
      }
    }
  }
}

void say(const std::string& message) {
  const std::string line = c10::str("zero: ", message, "\n");
  [[maybe_unused]] auto written =
      ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace

int run(const RunOptions& options) {
  check(options);
  check_proc();
  open_missing_standard_streams();
  // A shell that became this process by `exec` may have left children.
  const auto others = descendants();
  const Subreaper subreaper;
  const LaunchSignals signals;

  const pid_t front = ::getpid();
  const pid_t supervisor = ::fork();
  if (supervisor < 0) {
    throw IoError(base::system_message(
        "cannot start the supervisor of the ranks. Fix: raise the limit of "
        "processes (ulimit -u, or pids.max of the container)",
        "fork",
        errno));
  }
  if (supervisor == 0) {
    ::_exit(supervise(options, signals, front));
  }
  const int status = wait_for_supervisor(supervisor, signals);

  const auto left = end_descendants(others);
  if (WIFSIGNALED(status)) {
    say(c10::str(
        "the supervisor of the ranks (process ",
        supervisor,
        ") was killed by ",
        signal_name(WTERMSIG(status)),
        "; all ranks have been ended"));
  }
  if (!left.empty()) {
    say(c10::str(
        "process ",
        left.front(),
        left.size() == 1 ? "" : " and others",
        " could not be ended: it belongs to another user or hangs in the "
        "kernel"));
  }
  return exit_code_of(status);
}

} // namespace zero::launch

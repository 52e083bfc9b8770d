#include "launch/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "launch/descendants.h"
#include "launch/rank_environment.h"
#include "launch/rank_process.h"

namespace zero::launch {

using base::Clock;
using base::TimePoint;

namespace {

// Ranks that fail because another one did may be noticed before it.
constexpr std::chrono::milliseconds kSettle(500);

// A rank that has left the world and still runs is on its way out; how it ends
// may be the cause, so that it is awaited for longer.
constexpr std::chrono::seconds kLeavingTime(10);

// What ranks leave behind when all ended well, such as the `tee` of a shell
// script, gets a moment to finish its work.
constexpr std::chrono::milliseconds kOrphanTime(500);

// The front's death comes as SIGTERM, which whoever started it may have made us
// ignore: so that it is looked for, too.
constexpr int kFrontCheckMilliseconds = 500;

// timeout(1) and others send a signal twice at once; a user takes longer.
constexpr std::chrono::milliseconds kSecondRequest(250);

// A child that has ended and was not waited for, if there is one. It stays a
// zombie, so that its number is nobody else's yet.
std::optional<siginfo_t> ended_child() {
  siginfo_t child{};
  if (::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      child.si_pid == 0) {
    return std::nullopt;
  }
  return child;
}

} // namespace

Supervisor::Supervisor(
    const RunOptions& options,
    const LaunchSignals& signals,
    pid_t front)
    : options_(options),
      signals_(signals),
      front_(front),
      roster_(comm::Roster::create(options.num_ranks)) {
  if (options.on_loss == OnLoss::stop) {
    roster_.end_with_the_first_loss();
  }
  std::vector<RankProcess> processes;
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    // A rank is a background process to the terminal, which would stop it if
    // it read from there.
    const bool inherit_stdin = rank == 0 && ::isatty(STDIN_FILENO) == 0;
    processes.push_back(start_rank(
        {.command = options.command,
         .environment =
             rank_environment(rank, options.num_ranks, roster_.address()),
         .inherit_stdin = inherit_stdin},
        signals));
    ranks_.push_back({.pid = processes.back().pid, .running = true});
    ++num_running_;
  }

  // Not earlier: it starts a thread, and threads and forks do not mix.
  output_ = std::make_unique<JobOutput>();
  const bool colour_out = wants_colour(STDOUT_FILENO);
  const bool colour_err = wants_colour(STDERR_FILENO);
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    auto& process = processes[static_cast<size_t>(rank)];
    const auto label = [&](bool colour) {
      return options.own_program ? ""
                                 : rank_label(rank, options.num_ranks, colour);
    };
    output_->add_rank(
        std::move(process.out),
        std::move(process.err),
        label(colour_out),
        label(colour_err));
  }
}

int Supervisor::run() {
  while (num_running_ > 0) {
    step(kill_at_ ? kill_at_ : settle_at());
    if (front_gone()) {
      // Nobody is left to tell, and nobody to end us if we dally.
      end_descendants();
      return 128 + SIGKILL;
    }
    check_clock();
  }
  const bool survived =
      options_.on_loss == OnLoss::shrink && num_ended_well_ > 0;
  if (ending_ == Ending::no && cause_.suspected() && !survived) {
    ending_ = Ending::rank_failed;
  }
  finish();
  return exit_code();
}

void Supervisor::step(std::optional<TimePoint> until) {
  auto descriptors = output_->descriptors();
  descriptors.push_back({signals_.fd(), POLLIN, 0});
  int timeout = kFrontCheckMilliseconds;
  if (until) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now());
    timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, timeout));
  }
  if (::poll(descriptors.data(), descriptors.size(), timeout) > 0) {
    output_->handle(descriptors);
    handle_signals();
  }
}

std::optional<TimePoint> Supervisor::settle_at() const {
  if (!cause_.suspected() || ending_ != Ending::no ||
      options_.on_loss == OnLoss::shrink) {
    return std::nullopt;
  }
  if (cause_.certain()) {
    return suspected_at_;
  }
  const bool is_one_leaving =
      std::ranges::any_of(ranks_, [&](const Rank& rank) {
        const auto id = static_cast<int>(&rank - ranks_.data());
        return rank.running && roster_.state(id) == comm::MemberState::left;
      });
  return suspected_at_ + (is_one_leaving ? kLeavingTime : kSettle);
}

void Supervisor::check_clock() {
  if (const auto settled = settle_at(); settled && Clock::now() >= *settled) {
    begin_ending(Ending::rank_failed, SIGTERM);
  }
  if (output_->writer().reader_gone() && ending_ == Ending::no &&
      !options_.outlives_reader) {
    begin_ending(Ending::output_closed, SIGTERM);
  }
  if (kill_at_ && Clock::now() >= *kill_at_) {
    kill_at_.reset();
    send(SIGKILL, true);
    send(SIGKILL, false);
  }
}

void Supervisor::finish() {
  const auto orphans_until = Clock::now() + kOrphanTime;
  while (ending_ == Ending::no && Clock::now() < orphans_until &&
         !front_gone() && !descendants().empty()) {
    step(Clock::now() + std::chrono::milliseconds(10));
  }
  end_descendants();

  output_->take_the_rest();
  if (const int error = output_->writer().write_error(); error != 0) {
    output_->say(c10::str(
        "zero: output was lost, writing failed: ", std::strerror(error), "\n"));
  }
  if (ending_ == Ending::rank_failed) {
    const int rank = cause_.get().rank;
    if (!options_.own_program) {
      output_->say(last_lines_report(rank, output_->last_lines(rank)));
    }
    if (!options_.own_program || WIFSIGNALED(cause_.get().status)) {
      output_->say(failure_report(cause_, options_.on_loss));
    }
  } else if (ending_ == Ending::user_signal) {
    output_->say(c10::str(
        "zero: the job was ended by ", signal_name(ending_signal_), "\n"));
  }
  // The reader may take its time, but a user who asks again is not kept.
  hurry_ = false;
  while (!output_->writer().idle() && !front_gone() && !hurry_) {
    step(std::nullopt);
  }
}

int Supervisor::exit_code() const {
  switch (ending_) {
    case Ending::no:
      // What was lost on the way to a full disk is not a success.
      return output_->writer().write_error() != 0 ? 1 : 0;
    case Ending::rank_failed:
      return exit_code_of(cause_.get().status);
    case Ending::user_signal:
      return 128 + ending_signal_;
    case Ending::output_closed:
      return 128 + SIGPIPE;
  }
  return 0;
}

void Supervisor::handle_signals() {
  while (const auto signal = signals_.next()) {
    switch (*signal) {
      case SIGCHLD:
        reap();
        break;
      case SIGUSR1:
      case SIGUSR2:
        // Meant for the program: to its own children they may be deadly.
        send(*signal, false);
        break;
      case SIGCONT:
      case SIGTSTP:
        send(*signal, true);
        break;
      default:
        handle_end_request(*signal);
    }
  }
}

void Supervisor::handle_end_request(int signal) {
  if (ending_ == Ending::no && num_running_ > 0) {
    begin_ending(Ending::user_signal, signal);
  } else if (
      (signal == SIGINT || signal == SIGTERM) &&
      Clock::now() - ending_since_ >= kSecondRequest) {
    hurry_ = true;
    kill_at_ = Clock::now();
  } else {
    send(signal, true);
  }
}

void Supervisor::reap() {
  std::vector<RankEnd> lost;
  while (const auto child = ended_child()) {
    const pid_t pid = child->si_pid;
    const auto found = std::ranges::find(ranks_, pid, &Rank::pid);
    const bool failed = child->si_code != CLD_EXITED || child->si_status != 0;
    const bool others_go_on = failed && found != ranks_.end() &&
        ending_ == Ending::no && options_.on_loss == OnLoss::shrink;
    if (others_go_on) {
      // What it started would write on, perhaps where the others do now. Who
      // has left the group cannot be told from those of other ranks, and is
      // ended with the job.
      ::kill(-pid, SIGKILL);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (found == ranks_.end()) {
      continue; // an orphan
    }
    const int rank = static_cast<int>(found - ranks_.begin());
    roster_.mark_lost(rank);
    found->pid = 0;
    found->running = false;
    --num_running_;
    num_ended_well_ += failed ? 0 : 1;
    if (ending_ == Ending::no) { // else it was told to end
      const bool was_suspected = cause_.suspected();
      const RankEnd end = end_of(rank, pid, status);
      cause_.add(end);
      if (!was_suspected) {
        suspected_at_ = Clock::now();
      }
      if (others_go_on) {
        lost.push_back(end);
      }
    }
  }
  // When all that ended by now are counted.
  for (const auto& end : lost) {
    tell_of_loss(end);
  }
}

RankEnd Supervisor::end_of(int rank, pid_t pid, int status) {
  RankEnd end{
      .rank = rank,
      .pid = pid,
      .status = status,
      .victim = roster_.is_victim(rank),
      .silent = roster_.is_silent(rank)};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !end.silent) {
    end.kill_explanation = oom_.explain_kill();
  }
  return end;
}

void Supervisor::tell_of_loss(const RankEnd& end) {
  output_->take_the_rest(end.rank); // its last words come before
  const bool is_reported_at_the_end = num_running_ == 0 &&
      num_ended_well_ == 0 && cause_.get().rank == end.rank;
  if (!is_reported_at_the_end) {
    output_->say(loss_report(end, num_running_, options_.num_ranks));
  }
}

void Supervisor::begin_ending(Ending reason, int signal) {
  ending_ = reason;
  ending_signal_ = signal;
  ending_since_ = Clock::now();
  kill_at_ = ending_since_ +
      std::chrono::duration_cast<Clock::duration>(
                 base::Seconds(options_.grace_seconds));
  send(signal, true);
  send(SIGCONT, true); // a stopped process ends only when it goes on
}

void Supervisor::send(int signal, bool to_group) const {
  for (const auto& rank : ranks_) {
    if (rank.running) {
      // A rank may have left the group that it was given.
      if (!to_group || ::kill(-rank.pid, signal) != 0) {
        ::kill(rank.pid, signal);
      }
    }
  }
}

bool Supervisor::front_gone() const {
  return ::getppid() != front_;
}

int supervise(
    const RunOptions& options,
    const LaunchSignals& signals,
    pid_t front) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != front) {
    return 1; // it died before it was watched
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "zero-supervisor");
  // Ctrl-C in a terminal is for the front, which passes it on.
  ::setpgid(0, 0);
  int code = 1;
  std::string problem;
  try {
    Supervisor supervisor(options, signals, front);
    return supervisor.run();
  } catch (const ProgramError& error) {
    code = error.exit_code();
    problem = error.what();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  end_descendants();
  problem = c10::str("zero: ", problem, "\n");
  [[maybe_unused]] auto written =
      ::write(STDERR_FILENO, problem.data(), problem.size());
  return code;
}

} // namespace zero::launch

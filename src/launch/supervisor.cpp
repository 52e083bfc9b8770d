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

// Note [Replacing]
// A process in place of a lost rank is of use while others train: it gets from
// them what it goes on with. So nothing is replaced before the ranks have come
// together, nor once one has ended well, and when no rank is left, those who
// were to become some are ended, and the job with them. What fails of itself
// mostly does so on all ranks, which a moment shows.
constexpr std::chrono::milliseconds kTimeToFailAlike(500);

// A place is given up when so many processes in a row have ended before they
// took part, or in less than this time.
constexpr int kShortLives = 3;
constexpr std::chrono::seconds kShortLife(60);

// In all: each takes 64 bytes of the roster.
constexpr int kMaxReplacements = 4096;

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
      roster_(comm::Roster::create(
          options.num_ranks,
          options.on_loss == OnLoss::replace ? kMaxReplacements : 0)),
      replacements_(static_cast<size_t>(options.num_ranks)) {
  if (options.on_loss == OnLoss::stop) {
    roster_.end_with_the_first_loss();
  }
  std::vector<RankProcess> processes;
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    processes.push_back(start(rank, std::nullopt));
    ranks_.push_back(
        {.number = rank,
         .id = rank,
         .pid = processes.back().pid,
         .running = true,
         .started = Clock::now()});
    ++num_running_;
  }

  // Not earlier: it starts a thread, and threads and forks do not mix. Those
  // that are forked later do nothing before they become another program.
  output_ = std::make_unique<JobOutput>();
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    add_output(rank, std::move(processes[static_cast<size_t>(rank)]));
  }
}

RankProcess Supervisor::start(int number, std::optional<int> newcomer) const {
  // A rank is a background process to the terminal, which would stop it if it
  // read from there.
  const bool inherit_stdin =
      number == 0 && !newcomer && ::isatty(STDIN_FILENO) == 0;
  return start_rank(
      {.command = options_.command,
       .environment = rank_environment(
           number, options_.num_ranks, roster_.address(), newcomer),
       .inherit_stdin = inherit_stdin},
      signals_);
}

void Supervisor::add_output(int number, RankProcess process) {
  const auto label = [&](int fd) {
    return options_.own_program
        ? ""
        : rank_label(number, options_.num_ranks, wants_colour(fd));
  };
  output_->add_rank(
      std::move(process.out),
      std::move(process.err),
      label(STDOUT_FILENO),
      label(STDERR_FILENO));
}

int Supervisor::run() {
  while (num_running_ > 0) {
    step(kill_at_ ? kill_at_ : settle_at() ? settle_at() : next_replacement());
    if (front_gone()) {
      // Nobody is left to tell, and nobody to end us if we dally.
      end_descendants();
      return 128 + SIGKILL;
    }
    check_clock();
    replace_when_due();
    end_newcomers_if_alone();
  }
  const bool survived = goes_on() && num_ended_well_ > 0;
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
  if (!cause_.suspected() || ending_ != Ending::no || goes_on()) {
    return std::nullopt;
  }
  if (cause_.certain()) {
    return suspected_at_;
  }
  const bool is_one_leaving =
      std::ranges::any_of(ranks_, [&](const Rank& rank) {
        return rank.running &&
            roster_.state(rank.id) == comm::MemberState::left;
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
    if (!options_.own_program) {
      // Of the last one that had this process id.
      const auto found = std::ranges::find(
          ranks_.rbegin(), ranks_.rend(), cause_.get().pid, &Rank::pid);
      const auto place = static_cast<int>(ranks_.rend() - found) - 1;
      output_->say(
          last_lines_report(cause_.get().rank, output_->last_lines(place)));
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
  std::vector<std::pair<size_t, RankEnd>> lost; // with its place in ranks_
  while (const auto child = ended_child()) {
    const pid_t pid = child->si_pid;
    const auto found = std::ranges::find_if(ranks_, [&](const Rank& rank) {
      return rank.running && rank.pid == pid;
    });
    const bool failed = child->si_code != CLD_EXITED || child->si_status != 0;
    const bool others_go_on = failed && found != ranks_.end() &&
        ending_ == Ending::no && !are_newcomers_ended_ && goes_on();
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
    roster_.mark_lost(found->id);
    found->running = false;
    --num_running_;
    num_ended_well_ += failed ? 0 : 1;
    if (ending_ == Ending::no && !are_newcomers_ended_) { // else it had to end
      if (num_members() + 1 == options_.num_ranks &&
          !roster_.is_joining(found->id)) {
        cause_ = {}; // who was lost before this has been replaced
      }
      const bool was_suspected = cause_.suspected();
      const RankEnd end = end_of(*found, pid, status);
      cause_.add(end);
      if (!was_suspected) {
        suspected_at_ = Clock::now();
      }
      if (others_go_on) {
        lost.emplace_back(found - ranks_.begin(), end);
      }
    }
  }
  // When all that ended by now are counted.
  for (const auto& [place, end] : lost) {
    tell_of_loss(ranks_[place], end);
    plan_replacement(ranks_[place], end);
  }
}

RankEnd Supervisor::end_of(const Rank& rank, pid_t pid, int status) {
  RankEnd end{
      .rank = rank.number,
      .pid = pid,
      .status = status,
      .victim = roster_.is_victim(rank.id),
      .silent = roster_.is_silent(rank.id)};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !end.silent) {
    end.kill_explanation = oom_.explain_kill();
  }
  return end;
}

void Supervisor::tell_of_loss(const Rank& rank, const RankEnd& end) {
  // Its last words come before.
  output_->take_the_rest(static_cast<int>(&rank - ranks_.data()));
  const int num_left = num_members();
  const bool is_reported_at_the_end =
      num_left == 0 && num_ended_well_ == 0 && cause_.get().pid == end.pid;
  if (roster_.is_joining(rank.id) && num_left > 0) {
    output_->say(newcomer_report(end));
  } else if (!is_reported_at_the_end) {
    output_->say(loss_report(end, num_left, options_.num_ranks));
  }
}

int Supervisor::num_members() const {
  return static_cast<int>(std::ranges::count_if(ranks_, [&](const Rank& rank) {
    return rank.running && !roster_.is_joining(rank.id);
  }));
}

bool Supervisor::replaces() const {
  return options_.on_loss == OnLoss::replace && ending_ == Ending::no &&
      num_ended_well_ == 0 && roster_.where_to_meet().number > 0 &&
      num_members() > 0;
}

void Supervisor::plan_replacement(const Rank& lost, const RankEnd& end) {
  auto& replacement = replacements_[static_cast<size_t>(lost.number)];
  if (lost.id >= options_.num_ranks) {
    const bool was_short =
        roster_.is_joining(lost.id) || Clock::now() - lost.started < kShortLife;
    replacement.num_short_lives =
        was_short ? replacement.num_short_lives + 1 : 0;
  }
  if (!replaces()) {
    return;
  }
  if (replacement.num_short_lives >= kShortLives) {
    output_->say(c10::str(
        "zero: rank ",
        lost.number,
        " is not replaced any more: ",
        kShortLives,
        " processes in a row ended in its place, before they took part or in "
        "less than ",
        kShortLife.count(),
        " s; the others go on without it\n"));
    return;
  }
  replacement.start_at = Clock::now();
  if (!WIFSIGNALED(end.status)) {
    *replacement.start_at += kTimeToFailAlike;
  }
}

std::optional<TimePoint> Supervisor::next_replacement() const {
  std::optional<TimePoint> next;
  for (const auto& [num_short_lives, start_at] : replacements_) {
    if (start_at && (!next || *start_at < *next)) {
      next = start_at;
    }
  }
  return next;
}

void Supervisor::replace_when_due() {
  for (int number = 0; number < options_.num_ranks; ++number) {
    auto& start_at = replacements_[static_cast<size_t>(number)].start_at;
    if (start_at && Clock::now() >= *start_at) {
      start_at.reset();
      if (replaces()) {
        replace(number);
      }
    }
  }
}

void Supervisor::replace(int number) {
  const auto id = roster_.add_newcomer();
  if (!id) {
    output_->say(c10::str(
        "zero: rank ",
        number,
        " is not replaced: ",
        kMaxReplacements,
        " processes have been started in place of others, and there is no room "
        "for more; the others go on without it\n"));
    return;
  }
  try {
    RankProcess process = start(number, id);
    ranks_.push_back(
        {.number = number,
         .id = *id,
         .pid = process.pid,
         .running = true,
         .started = Clock::now()});
    ++num_running_;
    output_->say(c10::str(
        "zero: process ",
        process.pid,
        " is started in place of rank ",
        number,
        "\n"));
    add_output(number, std::move(process));
  } catch (const IoError& error) {
    roster_.mark_lost(*id);
    output_->say(c10::str(
        "zero: rank ",
        number,
        " is not replaced: ",
        base::message_of(error),
        "; the others go on without it\n"));
  }
}

// See Note [Replacing].
void Supervisor::end_newcomers_if_alone() {
  if (options_.on_loss != OnLoss::replace || num_running_ == 0 ||
      num_members() > 0 || kill_at_) {
    return;
  }
  if (ending_ == Ending::no && num_ended_well_ == 0) {
    ending_ = Ending::rank_failed;
  }
  are_newcomers_ended_ = true;
  send(SIGKILL, true);
  send(SIGKILL, false);
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

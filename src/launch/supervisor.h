// Defines supervise(): the process that starts the ranks of a job, passes on
// their output and the user's signals, and sees to their end. It is the child
// of the process the user started; Note [Nothing is left] says why there are
// two.
//
//   _exit(supervise(options, signals, front_pid));
//
// Single-threaded, but for the writer of the output.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "comm/roster.h"
#include "launch/first_cause.h"
#include "launch/job_output.h"
#include "launch/oom.h"
#include "launch/rank_process.h"
#include "launch/run.h"
#include "launch/signals.h"

namespace zero::launch {

// Runs a job in this process, a child of `front`. Reports errors itself, and
// returns the exit code.
int supervise(
    const RunOptions& options,
    const LaunchSignals& signals,
    pid_t front);

class Supervisor {
 public:
  // Starts the ranks.
  // Throws: IoError, ProgramError; ranks may run already when it does.
  Supervisor(
      const RunOptions& options,
      const LaunchSignals& signals,
      pid_t front);

  // Returns the exit code of the job, when everything has ended.
  int run();

 private:
  // A process that is a rank, or is to become one.
  struct Rank {
    int number = 0; // as at the start; that of the one it takes the place of
    int id = 0; // in the roster
    pid_t pid = 0;
    bool running = false;
    base::TimePoint started;
  };
  // What there is to know of a number whose process was lost.
  struct Replacement {
    int num_short_lives = 0; // of those in its place, one after another
    std::optional<base::TimePoint> start_at; // of the next one
  };
  enum class Ending { no, rank_failed, user_signal, output_closed };

  // Waits until something happens, or until a moment.
  void step(std::optional<base::TimePoint> until);
  // When the ranks are ended because one failed; if they are.
  std::optional<base::TimePoint> settle_at() const;
  void check_clock();
  void finish();
  int exit_code() const;

  void handle_signals();
  void handle_end_request(int signal);
  void reap();
  RankEnd end_of(const Rank& rank, pid_t pid, int status);
  void tell_of_loss(const Rank& rank, const RankEnd& end);
  bool goes_on() const {
    return options_.on_loss != OnLoss::stop;
  }

  RankProcess start(int number, std::optional<int> newcomer) const;
  void add_output(int number, RankProcess process);
  // Of those who are ranks, not of those who are to become some.
  int num_members() const;
  bool replaces() const;
  void plan_replacement(const Rank& lost, const RankEnd& end);
  void replace_when_due();
  std::optional<base::TimePoint> next_replacement() const;
  void replace(int number);
  void end_newcomers_if_alone();
  void begin_ending(Ending reason, int signal);
  void send(int signal, bool to_group) const;
  bool front_gone() const;

  const RunOptions& options_;
  const LaunchSignals& signals_;
  pid_t front_;
  OomWatch oom_;
  comm::Roster roster_;
  std::vector<Rank> ranks_; // and those that came later
  std::vector<Replacement> replacements_; // by number
  bool are_newcomers_ended_ = false; // since there are no ranks any more
  int num_running_ = 0;
  int num_ended_well_ = 0; // with exit code 0
  std::unique_ptr<JobOutput> output_;

  FirstCause cause_;
  base::TimePoint suspected_at_; // the moment when the cause was first so
  Ending ending_ = Ending::no;
  int ending_signal_ = 0;
  base::TimePoint ending_since_;
  std::optional<base::TimePoint> kill_at_;
  bool hurry_ = false; // the user asked again to end
};

} // namespace zero::launch

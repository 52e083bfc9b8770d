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
  struct Rank {
    pid_t pid;
    bool running;
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
  RankEnd end_of(int rank, pid_t pid, int status);
  void tell_of_loss(const RankEnd& end);
  void begin_ending(Ending reason, int signal);
  void send(int signal, bool to_group) const;
  bool front_gone() const;

  const RunOptions& options_;
  const LaunchSignals& signals_;
  pid_t front_;
  OomWatch oom_;
  comm::Roster roster_;
  std::vector<Rank> ranks_;
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

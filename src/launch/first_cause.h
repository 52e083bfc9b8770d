// Defines FirstCause: which of the ranks that failed made the others fail; and
// what is said of ranks that failed. Used by the supervisor, which reports the
// cause last, where a user looks first.
//
//   FirstCause cause;
//   cause.add({.rank = 2, .pid = pid, .status = status, .victim = false});
//   if (cause.certain()) report(cause.get());
#pragma once

#include <sys/types.h>

#include <deque>
#include <optional>
#include <string>

#include "launch/run.h"

namespace zero::launch {

// How a rank ended; `status` is what waitpid() says.
struct RankEnd {
  int rank = -1;
  pid_t pid = 0;
  int status = 0;
  bool victim = false; // it failed because another rank was lost
  bool silent = false; // the other ranks killed it: no sign of life
  std::string kill_explanation = {}; // OomWatch's, when it ended; of a SIGKILL

  bool failed() const {
    return status != 0;
  }
};

// What a shell would make of a status: 128 + signal for a signal.
int exit_code_of(int status);

class FirstCause {
 public:
  // In the order in which the ends were noticed; only failures matter.
  void add(const RankEnd& end);

  // Some rank has failed; get() may be called.
  bool suspected() const {
    return first_.has_value();
  }

  // One that is no victim has.
  bool certain() const {
    return suspected() && !first_->victim;
  }

  const RankEnd& get() const {
    return *first_;
  }

  // The first rank that ended with exit code 0: it is no failure, but it may be
  // why all that failed are victims.
  const std::optional<int>& deserter() const {
    return deserter_;
  }

 private:
  std::optional<RankEnd> first_;
  std::optional<int> deserter_;
};

// Whole lines: what the rank wrote last, and what happened to it at the end of
// a job that failed.
std::string last_lines_report(
    int rank,
    const std::deque<std::string>& last_lines);
std::string failure_report(const FirstCause& cause, OnLoss on_loss);

// A line for a rank that the others may go on without; `num_left` of them run.
std::string loss_report(const RankEnd& end, int num_left, int num_ranks);
// The same for one that was started in place of a lost rank, and had not been
// let in.
std::string newcomer_report(const RankEnd& end);

} // namespace zero::launch

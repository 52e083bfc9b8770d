// Defines start_rank(): one process of the job, connected by pipes. Called by
// the supervisor, whose death kills it.
//
//   RankProcess rank = start_rank(request, signals);
//   read(rank.out.get(), ...);  waitpid(rank.pid, ...);
#pragma once

#include <sys/types.h>
#include <zero/error.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "launch/signals.h"

namespace zero::launch {

// The program could not be executed; `exit_code` is the shell's for that: 127
// if it does not exist, else 126.
class ProgramError : public IoError {
 public:
  ProgramError(const std::string& message, int exit_code)
      : IoError(message), exit_code_(exit_code) {}
  int exit_code() const {
    return exit_code_;
  }

 private:
  int exit_code_;
};

struct RankRequest {
  std::vector<std::string>
      command; // the program, sought in PATH, and arguments
  std::vector<std::string> environment; // all of it, "NAME=value"
  bool inherit_stdin = false; // else it reads nothing
};

struct RankProcess {
  pid_t pid = 0; // also of the process group it leads
  base::UniqueFd out; // what it writes, non-blocking
  base::UniqueFd err;
};

// Returns when the program runs. No shell is involved.
// Throws: ProgramError; IoError if the system gives no process or descriptor.
RankProcess start_rank(
    const RankRequest& request,
    const LaunchSignals& signals);

} // namespace zero::launch

// Defines OomWatch: whether the kernel ended processes for want of memory since
// a moment, so that a SIGKILL nobody sent can be explained. Used by the
// supervisor.
//
//   const OomWatch oom;   ...   if (signal == SIGKILL) oom.explain_kill();
#pragma once

#include <cstdint>
#include <string>

namespace zero::launch {

class OomWatch {
 public:
  // From now on. `root` is where /proc and /sys are; not empty in tests.
  explicit OomWatch(std::string root = "");

  // What is known about a process that was killed by SIGKILL.
  std::string explain_kill() const;

 private:
  // How many processes were killed so far.
  uint64_t count_in_group() const; // in the control group of this process
  uint64_t count_on_machine() const;

  std::string root_;
  uint64_t group_kills_;
  uint64_t machine_kills_;
};

} // namespace zero::launch

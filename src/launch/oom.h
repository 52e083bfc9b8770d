// Defines OomWatch: whether the kernel ended processes for want of memory since
// a moment, so that a SIGKILL nobody sent can be explained. Used by the
// supervisor.
//
//   OomWatch oom;   ...   if (signal == SIGKILL) oom.explain_kill();
#pragma once

#include <cstdint>
#include <string>

namespace zero::launch {

class OomWatch {
 public:
  // From now on. `root` is where /proc and /sys are; not empty in tests.
  explicit OomWatch(std::string root = "");

  // What is known about a process that was killed by SIGKILL. What the kernel
  // counted explains as many of them: a job may lose several.
  std::string explain_kill();

 private:
  // How many processes the kernel has killed so far.
  uint64_t count_in_group() const; // in the control group of this process
  uint64_t count_on_machine() const;

  std::string root_;
  // Those from before, and those that have explained something.
  uint64_t group_kills_;
  uint64_t machine_kills_;
};

} // namespace zero::launch

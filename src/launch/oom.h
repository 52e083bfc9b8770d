// Defines OomWatch: whether the kernel ended processes for want of memory since
// a moment, so that a SIGKILL nobody sent can be explained.
#pragma once

#include <cstdint>
#include <string>

namespace zero::launch {

class OomWatch {
 public:
  // From now on.
  OomWatch();

  // What is known about a process that was killed by SIGKILL.
  std::string explain_kill() const;

 private:
  uint64_t group_kills_; // in the control group of this process
  uint64_t machine_kills_;
};

} // namespace zero::launch

// Defines what Progress says of operations that fail or do not come along:
// which rank, which operation, what can be done.
#pragma once

#include <exception>
#include <string>

#include "comm/shm/operation.h"
#include "comm/shm/progress_options.h"
#include "comm/shm/segment.h"

namespace zero::comm {

class Complaints {
 public:
  Complaints(const Segment& segment, const ProgressOptions& options)
      : segment_(segment), options_(options) {}

  std::exception_ptr peer_lost(const Operation& operation, int rank) const;
  std::exception_ptr deserted(const Operation& operation, int rank) const;
  std::exception_ptr timed_out(const Operation& operation) const;

  // Names the ranks that the operation waits for, and where the first one is.
  void warn_late(const Operation& operation, double seconds) const;

 private:
  // "[rank 0/4] all_reduce(sum, float32, 10 elements) #12"
  std::string title(const Operation& operation) const;

  const Segment& segment_;
  const ProgressOptions& options_;
};

} // namespace zero::comm

// Defines Operation: something a rank has been asked to do with others, as a
// state machine that never blocks. Progress moves it.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "comm/signature.h"

namespace zero::comm {

class Operation {
 public:
  explicit Operation(Signature signature) : signature_(signature) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Does what can be done without waiting. True if anything was.
  // Throws: CommError when the ranks disagree.
  virtual bool advance() = 0;

  // Whether this rank's part is done, and its result is there.
  virtual bool complete() const = 0;

  // Whether other ranks may be waiting for what this one has still to do.
  virtual bool owes() const = 0;

  // The ranks without which it cannot go on.
  virtual std::vector<int> awaited() const = 0;

  // Payload bytes read from other ranks.
  virtual int64_t bytes_received() const = 0;

  // Called once when it has failed: nobody moves it any more.
  virtual void give_up() {}

  // Whether it goes on by itself and rings no doorbell.
  virtual bool is_silent() const {
    return false;
  }

  const Signature& signature() const {
    return signature_;
  }

  // Set by who makes it: whether it is the user's, and so counted.
  bool counted = true;

  // Set by Progress: when it was queued, and how it ended.
  int64_t sequence = -1;
  std::atomic<bool> done = false;
  std::exception_ptr error; // read after `done`

  // Kept by Progress while the operation cannot go on.
  uint64_t moves = 0;
  uint64_t moves_seen = 0;
  base::TimePoint stuck_since;
  base::TimePoint warned;
  // When it had last moved, after a rank was lost.
  std::optional<base::TimePoint> lost_since;
  uint64_t moves_at_loss = 0;

 private:
  Signature signature_;
};

} // namespace zero::comm

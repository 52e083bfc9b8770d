// Defines Progress: it queues the operations of one rank in one group, moves
// them, waits for the others, and finds out when waiting makes no sense.
//
// Note [Who drives]
// One thread at a time drives: it advances whatever is at the head of a queue.
// The thread that calls an operation makes the first move, so a small one is
// published at once; whoever waits drives until its operation is done. A thread
// of our own drives only while nobody waits and others may need something of
// this rank; it makes large operations overlap with computation, and costs
// nothing otherwise.
//
// Collectives run in order, one at a time. Messages between pairs have a queue
// for each peer and direction and do not wait for anything else.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/shm/complaints.h"
#include "comm/shm/operation.h"
#include "comm/shm/segment.h"

namespace zero::comm {

class Progress {
 public:
  using Options = ProgressOptions;

  Progress(const Segment& segment, Options options);
  ~Progress(); // gives up whatever is under way
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  using Ptr = std::shared_ptr<Operation>;

  // Queues it, and makes the first move if nobody else is driving.
  void submit(const Ptr& operation);

  // Throws: what the operation failed with.
  void wait(const Ptr& operation);

  // True once wait() would not block.
  bool poll(const Ptr& operation);

  // Fails everything under way and everything to come.
  void abandon(const std::string& reason);

 private:
  using Queue = std::deque<Ptr>;
  using Lock = std::unique_lock<std::mutex>;
  using Failure = std::function<std::exception_ptr(const Operation&)>;
  using Channel = std::pair<CommOp, int>; // send or recv, and the peer

  enum class Driver { caller, own_thread };

  // Driving: called by the one driver, without the lock.
  void drive(const Operation* until, Driver who);
  void take_submitted();
  bool advance_heads();
  bool advance_head(Queue& queue);
  void idle(int& idle_rounds, Driver who);
  bool help_a_while(int& idle_rounds);
  std::chrono::nanoseconds sleep_limit();
  void fail_what_cannot_be();
  void fail_if_late(Queue& queue);
  bool may_still_complete(
      Operation& operation,
      const std::vector<int>& lost,
      int deserter);
  void fail(Queue& queue, Failure failure);
  void fail_all(Queue& queue, const Failure& failure);
  void finish(Queue& queue, std::exception_ptr error);

  // Called with the lock: becomes the driver, until it has done its part.
  void drive_as(Lock& lock, const Operation* until, Driver who);
  void hand_over();
  void start_own_thread();
  // Called by the driver, or with the lock while there is none.
  bool own_thread_needed() const;
  void run_own_thread();

  template <class Visitor>
  void for_each_queue(Visitor visit);

  const Segment& segment_;
  Options options_;
  Complaints complaints_;

  std::mutex mutex_;
  std::condition_variable changed_; // for those who wait
  std::condition_variable wanted_; // for our own thread
  bool driving_ = false;
  Queue submitted_; // not yet taken by the driver
  int64_t next_sequence_ = 0;
  std::map<Channel, int64_t> next_message_;
  std::string abandoned_; // the reason, if it is so
  std::thread thread_;
  bool thread_refused_ = false;

  // Hints that make the driver look at the fields above, or let go.
  std::atomic<bool> has_submitted_ = false;
  std::atomic<int> num_waiting_ = 0;
  std::atomic<bool> stop_ = false;

  // The driver's own.
  Queue collectives_;
  std::map<Channel, Queue> messages_;
  Failure broken_; // why no collective can run any more
  base::TimePoint idle_since_;
};

} // namespace zero::comm

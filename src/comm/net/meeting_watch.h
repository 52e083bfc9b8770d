// Defines MeetingWatch: says that ranks do not find each other while MPI waits
// for them, which cannot be interrupted. Used while a world over several hosts
// comes about.
//
//   { const MeetingWatch watch(rank, size, seconds); MPI_Comm_dup(...); }
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace zero::comm {

class MeetingWatch {
 public:
  // Warns every few seconds; ends the process after so many, with a message.
  MeetingWatch(int rank, int size, double limit_seconds);
  ~MeetingWatch(); // they have met
  MeetingWatch(const MeetingWatch&) = delete;
  MeetingWatch& operator=(const MeetingWatch&) = delete;

 private:
  void run(int rank, int size, double limit_seconds);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

} // namespace zero::comm

// Defines Doorbell: how a rank sleeps until another one has news for it.
//
//   self.wait_for_news(has_news, limit);     // the sleeper
//   word.store(news); doorbell.ring();       // whoever has news
//
// Sleeper and ringer each write first and read the other's word afterwards, all
// sequentially consistent, so that at least one of them sees the other: either
// the news is seen before sleeping, or the sleeper is seen and woken.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/futex.h"

namespace zero::comm {

// In shared memory, zero at first. One rank sleeps on it, any may ring.
class Doorbell {
 public:
  // Called after the news was stored.
  void ring() {
    if (sleeping_.load() != 0) {
      rung_.fetch_add(1);
      base::futex_wake_all(rung_);
    }
  }

  // Sleeps until rung, at most `limit`, unless there are news already.
  template <class HasNews>
  void wait_for_news(HasNews has_news, std::chrono::nanoseconds limit) {
    const uint32_t before = rung_.load();
    sleeping_.store(1);
    if (!has_news()) {
      base::futex_wait(rung_, before, limit);
    }
    sleeping_.store(0);
  }

 private:
  std::atomic<uint32_t> rung_;
  std::atomic<uint32_t> sleeping_; // whether ringing is needed
};

} // namespace zero::comm

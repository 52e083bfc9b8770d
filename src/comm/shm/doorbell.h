// Defines the doorbell: how a rank sleeps until another one has news for it.
//
// Sleeper and ringer each write first and read the other's word afterwards, all
// sequentially consistent, so that at least one of them sees the other: either
// the news is seen before sleeping, or the sleeper is seen and woken.
#pragma once

#include <chrono>

#include "base/futex.h"
#include "comm/shm/segment.h"

namespace zero::comm {

// Called after the news was stored.
inline void ring(RankState& rank) {
  if (rank.sleeping.load() != 0) {
    rank.doorbell.fetch_add(1);
    base::futex_wake_all(rank.doorbell);
  }
}

// Sleeps until rung, at most `limit`, unless there are news already.
template <class HasNews>
void sleep_unless(
    RankState& self,
    HasNews has_news,
    std::chrono::nanoseconds limit) {
  const uint32_t before = self.doorbell.load();
  self.sleeping.store(1);
  if (!has_news()) {
    base::futex_wait(self.doorbell, before, limit);
  }
  self.sleeping.store(0);
}

} // namespace zero::comm

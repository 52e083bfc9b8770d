// Defines Watch: how a layer above waits for other ranks by words of its own in
// shared memory, and finds out when waiting makes no sense: a rank is lost, or
// late for too long.
//
//   watch.wait(own_bell, [&] { return all_have_come(); },
//              {.what = "step", .sequence = 7, .awaited = missing_ranks});
//
// Whoever changes a word that others may wait for rings their doorbells.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/shm/doorbell.h"
#include "comm/shm/group.h"

namespace zero::comm {

// What is waited for, in errors and warnings.
struct Awaiting {
  const char* what = "";
  int64_t sequence = -1;
  // The ranks without which it cannot go on.
  std::function<std::vector<int>()> awaited;
};

class Watch {
 public:
  explicit Watch(std::shared_ptr<Group> group);

  // Calls `done` again and again until it is true; it may do work that others
  // wait for. Throws: PeerLost, CommTimeout.
  void wait(
      Doorbell& own_bell,
      const std::function<bool()>& done,
      const Awaiting& awaiting) const;

 private:
  void throw_if_lost(
      const std::function<bool()>& done,
      const Awaiting& awaiting,
      bool& is_done) const;
  void warn_late(const Awaiting& awaiting, double seconds) const;
  [[noreturn]] void throw_timeout(const Awaiting& awaiting) const;

  std::shared_ptr<Group> group_;
  bool may_spin_;
};

} // namespace zero::comm

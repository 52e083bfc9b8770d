// Defines Monitor: the thread that says this rank lives, and finds out which
// others do not.
//
// Note [Lost is not late]
// A rank is lost when its process is gone, which its pidfd tells at once, or
// when its heartbeat is silent for the timeout, as after kill -STOP. A silent
// rank is killed, and only when its process is gone it is marked lost: nobody
// touches its memory while it could wake up and write. A rank that computes for
// an hour is late, not lost: its monitor goes on beating.
// A rank of another host is watched by its own host, which tells of its end. It
// is lost without that when nothing has come from it for the timeout and a
// little more: its host is gone, or out of reach.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "comm/net/outside.h"
#include "comm/roster.h"

namespace zero::comm {

class Monitor {
 public:
  // `id` has joined the roster. `outside` is null on one host.
  Monitor(
      Roster roster,
      int id,
      double timeout_seconds,
      std::shared_ptr<const Outside> outside = nullptr);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Any thread may call it. The same on all ranks: each beats as often as its
  // own timeout asks for.
  void set_timeout(double seconds) {
    timeout_seconds_ = seconds;
  }

 private:
  // What this rank has seen of another one.
  struct Peer {
    bool watched = false; // has joined, and its process is being watched
    bool condemned = false; // was silent too long, has been sent SIGKILL
    base::UniqueFd pidfd; // none for a rank that is a thread of this process
    uint64_t heartbeat = 0;
    base::TimePoint heard;
  };

  base::Seconds timeout() const {
    return base::Seconds(timeout_seconds_);
  }
  void run();
  void watch(int peer);
  void check_heartbeat(int peer, base::TimePoint now);
  void give_up(int peer);
  void mark_lost(int peer);
  int num_peers() const {
    return static_cast<int>(peers_.size());
  }
  bool is_here(int peer) const {
    return outside_ == nullptr || outside_->is_here(peer);
  }
  void wait_for_an_exit();

  Roster roster_;
  int id_;
  std::atomic<double> timeout_seconds_;
  std::shared_ptr<const Outside> outside_;
  base::UniqueFd stop_; // readable when the thread is to end
  std::vector<Peer> peers_; // touched by the thread alone
  std::thread thread_;
};

} // namespace zero::comm

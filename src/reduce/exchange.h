// Defines Exchange: how the ranks hand each other their contributions to
// buckets of gradients, in whatever order each of them produces them. It knows
// nothing of tensors. Used by Reducer during backward, and by a test that runs
// it with tiny buckets.
//
// Note [Buckets]
// All ranks have the same buckets. In a pass (one backward) every rank
// publishes each bucket once: with data, or with none. Each rank owns a slice
// of every bucket, and reduces its slice as soon as all ranks have published
// the bucket, taking the contributions in rank order; so a sum never depends on
// timing.
//
// Data is published in one of a few slots. A slot is free again when every rank
// has reduced its slice of what is in it. When no slot is free, a rank
//   waits   if a bucket in a slot lacks only ranks that are in their backward
//           and have not come so far in the usual order: they will publish it
//           soon. Every rank waits only for ranks that are behind it, so nobody
//           waits in a circle;
//   spills  otherwise: ranks produce gradients in different orders, and the one
//           that is missed may never come to this bucket before its backward
//           ends. publish() returns false, the rank keeps the data and goes on.
// At the end of its backward a rank publishes what is left in the usual order,
// where it has one slot more that is used for nothing else. The first bucket
// that is not yet reduced everywhere is then always published by every rank,
// and so on for the next: nobody hangs. (A rank blocked at bucket b has an
// earlier one in that slot, so it has already published every bucket before b.)
//
// Over several hosts, control words are mirrored. Of the slice that a rank of
// another host owns, one rank of this host, the owner's counterpart, sums up
// what all ranks of this host have given as soon as they have, in place of what
// the first of them gave, and sends the sum: a slice goes over the wire once
// for each host. The owner then finds one contribution of that host instead of
// several. What is in a slot is still needed until the owner has reduced, so
// all of the above holds.
//
// A round is what one update needs, one pass or more. A rank that has closed
// the round takes part in the passes that others still make, with no data.
//
// Not thread-safe; the owner locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/net/reach.h"
#include "comm/watch.h"

namespace zero::reduce {

// What one rank gives to a bucket.
struct Contribution {
  enum class Kind : uint8_t {
    nothing, // it has no gradients there
    slot, // `data` has them
    in_place, // they are where they have a place of their own
  };
  Kind kind = Kind::nothing;
  const std::byte* data = nullptr;
};

class ExchangeHandler {
 public:
  virtual ~ExchangeHandler() = default;
  // Writes this rank's data of a bucket into a slot.
  virtual void fill(int bucket, std::byte* to) = 0;
  // Reduces this rank's slice; contributions are by rank.
  virtual void reduce(
      int bucket,
      const std::vector<Contribution>& contributions) = 0;
  // Sums up the slices of other hosts' ranks whose counterpart this rank is, in
  // place of the contribution of rank `first`, and sends them to those hosts.
  // Contributions are by rank, of this host only.
  virtual void join(
      int bucket,
      const std::vector<Contribution>& contributions,
      int first) = 0;
};

class Exchange {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    int num_buckets = 0;
    // 0: data stays in place, each bucket has a place of its own.
    int num_slots = 0;
    int64_t slot_bytes = 0;
    // By rank, in memory that all ranks share; zero at first.
    std::vector<std::byte*> control; // control_bytes()
    std::vector<std::byte*> slots; // slots_bytes()
    // Of the memory with the control words, over several hosts.
    std::optional<comm::Reach> reach = {};
  };
  static int64_t control_bytes(int num_buckets);
  static int64_t slots_bytes(int num_slots, int64_t slot_bytes);
  // Of a rank's control words: what wakes it up.
  static comm::Doorbell& bell(std::byte* control);

  Exchange(Options options, const comm::Watch& watch, ExchangeHandler& handler);

  // Starts this rank's next pass.
  void begin_pass();

  // This rank's data of the bucket is complete. False: there is no slot, and
  // the caller keeps the data for finish_pass().
  bool publish(int bucket);

  // Reduces what can be reduced.
  void progress();

  // Publishes what is left; `has` says whether there is data of a bucket. When
  // it returns, all ranks have reduced all buckets of this pass, and nobody
  // reads this rank's data any more.
  void finish_pass(const std::function<bool(int)>& has);

  // This rank makes no more passes before the update. Returns when no rank
  // does, and all passes are complete. Requires: no rank begins the next pass
  // before all have returned; the update sees to that.
  void close_round();

  bool in_pass() const {
    return in_pass_;
  }
  bool published(int bucket) const {
    return published_[static_cast<size_t>(bucket)];
  }
  int64_t pass() const {
    return static_cast<int64_t>(pass_);
  }

 private:
  struct RankWords;
  struct Slot {
    int bucket = -1;
    uint64_t pass = 0;
  };

  RankWords& words(int rank) const;
  void set(
      std::atomic<uint64_t>& word,
      uint64_t value,
      comm::Order order = comm::Order::kept) const;
  bool is_here(int rank) const;
  Contribution contribution(int rank, uint64_t what) const;
  bool all_here_have_published(int bucket) const;
  bool all_hosts_have_joined(int bucket) const;
  void join(int bucket);
  std::vector<Contribution> contributions_here(int bucket) const;
  void add_other_hosts(int bucket, std::vector<Contribution>& all) const;
  std::byte* slot_data(int rank, int slot) const;
  bool has_published(int rank, int bucket) const;
  int position(int rank) const;
  bool is_free(const Slot& slot) const;
  int free_slot() const;
  int wait_for_slot(int bucket);
  bool worth_waiting() const;
  void announce(int bucket, uint64_t what);
  void come_to(int bucket);
  void fill_and_announce(int bucket, int slot);
  void ring_others() const;
  void wait(const char* what, const std::function<bool()>& done);
  std::vector<int> ranks_behind() const;

  Options options_;
  const comm::Watch& watch_;
  ExchangeHandler& handler_;
  std::vector<Slot> slots_; // the last one is kept for finish_pass()
  std::vector<char> published_; // by bucket, in this pass
  std::vector<char> reduced_; // by this rank
  std::vector<char> joined_; // likewise, for other hosts
  int num_reduced_ = 0;
  int first_unreduced_ = 0;
  uint64_t pass_ = 0;
  uint64_t round_ = 0;
  bool in_pass_ = false;
};

} // namespace zero::reduce

// Defines Reach: how the ranks of a group get at those on other hosts. What a
// rank writes into the group's segment is there for its host; this sends it to
// the others. On one host it does nothing.
//
//   copy into slot; reach.store(slot, bytes, host);
//   counter = n;    reach.store_word(counter);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/net/hosts.h"
#include "comm/net/mirror.h"

namespace zero::comm {

// Ranks here are those of the group.
class Reach {
 public:
  // A group on one host.
  Reach(int rank, int size);
  // `number` is that of the segment, ids are the mirror's ranks by rank.
  Reach(
      int rank,
      Hosts hosts,
      std::shared_ptr<Mirror> mirror,
      uint32_t number,
      const std::vector<int>& ids);

  const Hosts& hosts() const {
    return hosts_;
  }
  bool is_one_host() const {
    return mirror_ == nullptr;
  }
  int host() const {
    return hosts_.host_of(rank_);
  }
  bool is_here(int rank) const {
    return hosts_.host_of(rank) == host();
  }

  // Bytes of the segment, as Mirror has it, to another host.
  void store(const void* place, int64_t bytes, int host) const;
  // To all of them.
  void store(const void* place, int64_t bytes) const;
  void store_word(const std::atomic<uint64_t>& word, Order order = Order::kept)
      const;
  // What concerns one rank goes to its own process: those beside it may be
  // gone.
  void store_for(const void* place, int64_t bytes, int rank) const;
  void store_word_for(
      const std::atomic<uint64_t>& word,
      int rank,
      Order order = Order::kept) const;

  // Of the mirror, for memory of the same ranks.
  Reach with_number(uint32_t number) const;
  void add(
      std::shared_ptr<base::SharedMapping> mapping,
      std::function<void()> arrived) const;
  void remove() const;
  // As Mirror has it; `rank` is on another host.
  void read(
      size_t offset,
      std::byte* to,
      size_t bytes,
      int rank,
      std::function<void(bool)> done) const;

  // Whether every rank is alone on its host, and there are others.
  bool are_all_apart() const {
    return mirror_ != nullptr && hosts_.num_hosts() == hosts_.num_ranks();
  }
  // A passage from or to a rank on another host, to be filled in and opened.
  std::shared_ptr<Passage> passage(Passage::Way way, int rank, uint64_t id)
      const;
  void open(std::shared_ptr<Passage> passage) const;
  void hurry() const;
  bool help() const;

 private:
  int rank_;
  Hosts hosts_;
  std::shared_ptr<Mirror> mirror_;
  uint32_t number_ = 0;
  std::vector<int> ids_;
  std::vector<int> receiver_; // the mirror's rank that receives, by host
};

} // namespace zero::comm

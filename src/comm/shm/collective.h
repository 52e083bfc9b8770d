// Defines Collective: an operation of the whole group, piece by piece through
// the slots of the segment. Note [Pieces] in segment.h tells how.
//
// A collective derives from it and says what to copy in each stage:
//
//   class Broadcast : public Collective { void publish(piece) override; ... };
#pragma once

#include <cstdint>
#include <vector>

#include "comm/net/reach.h"
#include "comm/shm/operation.h"
#include "comm/shm/segment.h"

namespace zero::comm {

// This rank's view of the group that a collective runs in.
struct CollectiveContext {
  const Segment& segment;
  int rank;
  bool verify; // compare signatures before using anybody's data
  uint64_t& next_piece; // the first piece of the next collective
  const Reach& reach;
};

class Collective : public Operation {
 public:
  bool advance() final;
  bool complete() const final;
  bool owes() const final;
  std::vector<int> awaited() const final;
  int64_t bytes_received() const final {
    return bytes_received_;
  }

 protected:
  // How a collective is cut: what the stages are called with.
  struct Pieces {
    int64_t number = 0;
    bool joined = false; // whether there is a joining stage
    bool combined = false; // whether there is a combining stage
    // Whether it ends only when everybody has collected: needed where ranks
    // read each other's tensors, which their owners may change afterwards.
    bool closed = false;
  };

  Collective(CollectiveContext context, Signature signature, Pieces pieces);

  // Piece numbers count from 0 within the collective. What a stage has made for
  // other hosts it sends there.
  virtual void publish(int64_t piece) = 0;
  virtual void join(int64_t /*piece*/) {}
  virtual void combine(int64_t /*piece*/) {}
  virtual void collect(int64_t piece) = 0;

  // What goes beside the slots: see comm/shm/straight.h. Both say whether
  // anything has moved; nothing may leave this rank before the second one is
  // called.
  virtual bool await_straight() {
    return false;
  }
  virtual bool move_straight() {
    return false;
  }
  virtual bool has_moved_straight() const {
    return true;
  }
  virtual std::vector<int> awaited_straight() const {
    return {};
  }

  int rank() const {
    return context_.rank;
  }
  int size() const {
    return context_.segment.size();
  }
  const Segment& segment() const {
    return context_.segment;
  }
  const Reach& reach() const {
    return context_.reach;
  }
  std::byte* slot(int rank, int64_t piece) const {
    return segment().slot(rank, first_ + static_cast<uint64_t>(piece));
  }
  std::byte* slot(int rank, int64_t piece, int to) const {
    return segment().slot(rank, first_ + static_cast<uint64_t>(piece), to);
  }
  std::byte* result(int rank, int64_t piece) const {
    return segment().result(rank, first_ + static_cast<uint64_t>(piece));
  }
  void count_received(int64_t bytes) {
    bytes_received_ += bytes;
  }

 private:
  using Counter = std::atomic<uint64_t> RankState::*;

  void start();
  bool announce();
  bool try_verify();
  bool publish_next();
  bool join_next();
  bool combine_next();
  bool collect_next();
  bool close();
  bool all_reached(Counter counter, uint64_t target, uint64_t& least) const;
  bool all_here_reached(Counter counter, uint64_t target) const;
  std::vector<int> behind(Counter counter, uint64_t target) const;
  // What a stage works on: how far this rank is, and whom it waits for.
  int64_t ready_to_combine() const {
    return pieces_.joined ? joined_ : published_;
  }
  int64_t ready_to_collect() const {
    return pieces_.combined ? combined_ : ready_to_combine();
  }
  Counter needed_to_combine() const {
    return pieces_.joined ? &RankState::joined : &RankState::published;
  }
  Counter needed_to_collect() const {
    return pieces_.combined ? &RankState::combined : needed_to_combine();
  }
  void raise(Counter counter, uint64_t value, Order order = Order::kept);

  CollectiveContext context_;
  Pieces pieces_;
  bool started_ = false;
  bool announced_ = false;
  bool verified_ = false;
  bool closed_ = false;
  uint64_t first_ = 0; // number of piece 0 in the segment
  int64_t published_ = 0;
  int64_t joined_ = 0;
  int64_t combined_ = 0;
  int64_t collected_ = 0;
  int64_t bytes_received_ = 0;
  // The least counter of all ranks when it was last looked at.
  uint64_t least_ready_to_combine_ = 0;
  uint64_t least_ready_to_collect_ = 0;
  uint64_t least_collected_ = 0;
};

} // namespace zero::comm

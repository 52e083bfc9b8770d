// Defines Journal: what a rank writes down of the round it is in, so that from
// shared memory alone others can tell how far it was if it dies, and finish its
// update.
//
// Note [Journal]
// A shard is updated chunk by chunk. Before a chunk is changed, its old values
// are copied, then the journal says that this chunk is under way. Whoever
// finishes the update puts the old values back, then goes on from there: an
// update of a chunk happens once, whole. Two copies take turns, so that the one
// that counts is never being written. Who finishes the update of another goes
// on in that one's journal, and may die in turn.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/window_state.h"

namespace zero::engine {

// How far a rank is with the round.
enum class Phase : uint8_t {
  open, // gradients may still come
  decided, // this rank has nothing more to give
  agreed, // it knows what all ranks bring; the update will be completed
  updated, // this rank's part of it is
};

class Journal {
 public:
  // Memory that changes with a chunk, and must be put back.
  struct Piece {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };

  // What a rank brings to the agreement on its update.
  struct Contribution {
    double norm_power_sum = 0; // of the means that it owns
    bool joined = false; // it has no more batches
  };
  // Later places are greater.
  struct Place {
    uint64_t round = 0;
    Phase phase = Phase::open;
    auto operator<=>(const Place&) const = default;
  };

  // Collective. Chunks have at most `chunk_bytes` in all their pieces.
  Journal(const std::shared_ptr<comm::Group>& group, int64_t chunk_bytes);

  void open(uint64_t round);
  void decide(uint64_t round, const Contribution& contribution);
  // What all ranks bring, by rank.
  void agree(uint64_t round, const std::vector<Contribution>& contributions);
  // The update of `rank` is complete.
  void finish(int rank, uint64_t round) const;

  Place place(int rank) const;
  // To a round that the rank has decided, and no later one.
  Contribution contribution(int rank, uint64_t round) const;
  // Of all ranks, if `rank` has agreed on that round or a later one, and is no
  // further than in the next. Empty if not.
  std::vector<Contribution> agreement(int rank, uint64_t round) const;

  // Chunk `number` of rank's update is about to be changed; those before it are
  // complete.
  void enter(int rank, int64_t number, const std::vector<Piece>& pieces) const;

  // The first chunk of rank's update that is not known to be complete.
  int64_t next_chunk(int rank) const;
  // Puts the old values of that chunk back. False if it had not been entered.
  bool restore(int rank, int64_t number, const std::vector<Piece>& pieces)
      const;

 private:
  struct Words;
  Words& words(int rank) const;
  Contribution* agreed(int rank, uint64_t round) const;
  std::byte* copy(int rank, int64_t number) const;

  int64_t chunk_bytes_;
  int64_t agreement_bytes_;
  int rank_;
  int size_;
  std::shared_ptr<comm::WindowState> window_;
};

} // namespace zero::engine

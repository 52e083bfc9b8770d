// Defines Journal: what a rank writes down while it updates its shard, so that
// from shared memory alone others can finish its update if it dies.
//
// Note [Journal]
// A shard is updated chunk by chunk. Before a chunk is changed, its old values
// are copied, then the journal says that this chunk is under way. Whoever
// finishes the update puts the old values back, then goes on from there: an
// update of a chunk happens once, whole. Two copies take turns, so that the one
// that counts is never being written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/window_state.h"

namespace zero::engine {

// How far a rank is with the round.
enum class Phase : uint32_t {
  open, // gradients may still come
  decided, // all ranks have given all; the update will be completed
  updated, // this rank's part of it is
};

class Journal {
 public:
  // Memory that changes with a chunk, and must be put back.
  struct Piece {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };

  // Collective. Chunks have at most `chunk_bytes` in all their pieces.
  Journal(const std::shared_ptr<comm::Group>& group, int64_t chunk_bytes);

  void begin(Phase phase, uint64_t round);
  Phase phase(int rank) const;

  // Chunk `number` is about to be changed; those before it are complete.
  void enter(int64_t number, const std::vector<Piece>& pieces);

  // The first chunk of rank's update that is not known to be complete.
  int64_t next_chunk(int rank) const;
  // Puts the old values of that chunk back, if it had been entered.
  void restore(int rank, int64_t number, const std::vector<Piece>& pieces)
      const;

 private:
  struct Words;
  Words& words(int rank) const;
  std::byte* copy(int rank, int64_t number) const;

  int64_t chunk_bytes_;
  int rank_;
  std::shared_ptr<comm::WindowState> window_;
};

} // namespace zero::engine

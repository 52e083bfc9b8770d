#include "engine/journal.h"

#include <cstring>

#include "base/alignment.h"
#include "base/error.h"

namespace zero::engine {

struct Journal::Words {
  std::atomic<uint64_t> round;
  std::atomic<Phase> phase;
  std::atomic<int64_t> entered; // 1 + the chunk under way, 0 if none
};

Journal::Journal(const std::shared_ptr<comm::Group>& group, int64_t chunk_bytes)
    : chunk_bytes_(base::round_up(chunk_bytes, base::kCacheLine)),
      rank_(group->rank()),
      window_(comm::make_window(group, base::kCacheLine + 2 * chunk_bytes_)) {}

Journal::Words& Journal::words(int rank) const {
  return *reinterpret_cast<Words*>(window_->data(rank));
}

std::byte* Journal::copy(int rank, int64_t number) const {
  return window_->data(rank) + base::kCacheLine + number % 2 * chunk_bytes_;
}

void Journal::begin(Phase phase, uint64_t round) {
  auto& own = words(rank_);
  own.entered = 0;
  own.round = round;
  own.phase = phase;
}

Phase Journal::phase(int rank) const {
  return words(rank).phase;
}

void Journal::enter(int64_t number, const std::vector<Piece>& pieces) {
  std::byte* to = copy(rank_, number);
  for (const auto& piece : pieces) {
    std::memcpy(to, piece.data, static_cast<size_t>(piece.bytes));
    to += piece.bytes;
  }
  ZERO_CHECK(to <= copy(rank_, number) + chunk_bytes_);
  words(rank_).entered = number + 1;
}

int64_t Journal::next_chunk(int rank) const {
  const int64_t entered = words(rank).entered;
  return entered == 0 ? 0 : entered - 1;
}

void Journal::restore(
    int rank,
    int64_t number,
    const std::vector<Piece>& pieces) const {
  if (words(rank).entered != number + 1) {
    return;
  }
  const std::byte* from = copy(rank, number);
  for (const auto& piece : pieces) {
    std::memcpy(piece.data, from, static_cast<size_t>(piece.bytes));
    from += piece.bytes;
  }
}

} // namespace zero::engine

#include "engine/journal.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/alignment.h"
#include "base/error.h"

namespace zero::engine {

// Each is one word, so that none is ever half written.
struct Journal::Words {
  std::atomic<uint64_t> place; // round << kPhaseBits | phase
  std::atomic<int64_t> entered; // 1 + the chunk under way, 0 if none
  // Of this round and the one before: a rank may be in the next one already
  // when another asks for what it brought to this one.
  struct {
    std::atomic<double> norm_power_sum;
    std::atomic<bool> joined;
  } contributions[2];
};

namespace {

constexpr int kPhaseBits = 3;

uint64_t word_of(uint64_t round, Phase phase) {
  return round << kPhaseBits | static_cast<uint64_t>(phase);
}

} // namespace

Journal::Journal(const std::shared_ptr<comm::Group>& group, int64_t chunk_bytes)
    : chunk_bytes_(base::round_up(chunk_bytes, base::kCacheLine)),
      agreement_bytes_(base::round_up(
          group->size() * static_cast<int64_t>(sizeof(Contribution)),
          base::kCacheLine)),
      rank_(group->rank()),
      size_(group->size()),
      window_(comm::make_window(
          group,
          base::kCacheLine + 2 * agreement_bytes_ + 2 * chunk_bytes_)) {}

Journal::Words& Journal::words(int rank) const {
  return *reinterpret_cast<Words*>(window_->data(rank));
}

std::byte* Journal::copy(int rank, int64_t number) const {
  return window_->data(rank) + base::kCacheLine + 2 * agreement_bytes_ +
      number % 2 * chunk_bytes_;
}

// Of this round and the one before, as contributions are.
Journal::Contribution* Journal::agreed(int rank, uint64_t round) const {
  return reinterpret_cast<Contribution*>(
      window_->data(rank) + base::kCacheLine +
      static_cast<int64_t>(round % 2) * agreement_bytes_);
}

void Journal::open(uint64_t round) {
  auto& own = words(rank_);
  own.entered = 0; // before the next update can be thought to be under way
  own.place = word_of(round, Phase::open);
}

void Journal::decide(uint64_t round, const Contribution& contribution) {
  auto& own = words(rank_);
  auto& place = own.contributions[round % 2];
  place.norm_power_sum = contribution.norm_power_sum;
  place.joined = contribution.joined;
  own.place = word_of(round, Phase::decided);
}

void Journal::agree(
    uint64_t round,
    const std::vector<Contribution>& contributions) {
  std::ranges::copy(contributions, agreed(rank_, round));
  words(rank_).place = word_of(round, Phase::agreed);
}

void Journal::finish(int rank, uint64_t round) const {
  words(rank).place = word_of(round, Phase::updated);
}

Journal::Place Journal::place(int rank) const {
  const uint64_t word = words(rank).place;
  return {
      .round = word >> kPhaseBits,
      .phase = static_cast<Phase>(word & ((1U << kPhaseBits) - 1))};
}

Journal::Contribution Journal::contribution(int rank, uint64_t round) const {
  const auto& place = words(rank).contributions[round % 2];
  return {.norm_power_sum = place.norm_power_sum, .joined = place.joined};
}

std::vector<Journal::Contribution> Journal::agreement(int rank, uint64_t round)
    const {
  if (place(rank) < Place{round, Phase::agreed}) {
    return {};
  }
  const Contribution* first = agreed(rank, round);
  return {first, first + size_};
}

void Journal::enter(int rank, int64_t number, const std::vector<Piece>& pieces)
    const {
  std::byte* to = copy(rank, number);
  for (const auto& piece : pieces) {
    std::memcpy(to, piece.data, static_cast<size_t>(piece.bytes));
    to += piece.bytes;
  }
  ZERO_CHECK(to <= copy(rank, number) + chunk_bytes_);
  words(rank).entered = number + 1;
}

int64_t Journal::next_chunk(int rank) const {
  const int64_t entered = words(rank).entered;
  return entered == 0 ? 0 : entered - 1;
}

bool Journal::restore(
    int rank,
    int64_t number,
    const std::vector<Piece>& pieces) const {
  if (words(rank).entered != number + 1) {
    return false;
  }
  const std::byte* from = copy(rank, number);
  for (const auto& piece : pieces) {
    std::memcpy(piece.data, from, static_cast<size_t>(piece.bytes));
    from += piece.bytes;
  }
  return true;
}

} // namespace zero::engine

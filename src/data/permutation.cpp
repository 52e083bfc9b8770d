#include "data/permutation.h"

#include <bit>

namespace zero::data {

namespace {

constexpr int kRounds = 6;

// Spreads each bit over all: the finalizer of SplitMix64.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// A Feistel network permutes the numbers of 2 * half_bits bits, whatever the
// function of its rounds.
uint64_t permuted(uint64_t number, int half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = number >> half_bits;
  uint64_t right = number & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t next =
        left ^ (mix(right ^ mix(key + static_cast<uint64_t>(round))) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

} // namespace

int64_t shuffled(int64_t place, int64_t count, uint64_t key) {
  const auto limit = static_cast<uint64_t>(count);
  const int half_bits = (std::bit_width(limit) + 1) / 2;
  auto number = static_cast<uint64_t>(place);
  // Numbers beyond the count are passed on until one is below it. The walk is
  // part of a cycle through `place`, so it ends; in 4 steps on average at most.
  do {
    number = permuted(number, half_bits, key);
  } while (number >= limit);
  return static_cast<int64_t>(number);
}

} // namespace zero::data

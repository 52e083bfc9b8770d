// Defines shuffled(): an order of the numbers below n that is computed, not
// kept. A table for a data set of a billion tokens would take 8 GB on each
// rank, and would have to be made again before training goes on.
#pragma once

#include <cstdint>

namespace zero::data {

// The number at `place` of the order that `key` chooses: each number below
// `count` is at one place. 0 <= place < count.
int64_t shuffled(int64_t place, int64_t count, uint64_t key);

} // namespace zero::data

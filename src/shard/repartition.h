// Defines repartition(): what a rank has to have of parameters and optimizer
// state, out of the same partition over other ranks. Used when those who are
// left go on without a rank that was lost.
#pragma once

#include <vector>

#include "shard/partition.h"

namespace zero::shard {

// Ranks of the partition that is copied from, all of them left.
struct Holders {
  std::vector<int> of; // by rank: on whose host that one's slices are
  int of_copies = 0; // whose copy is taken of what every rank or host has
};

// Whether a partition over several hosts has something on each rank or host
// that nobody owns, and its checksum here.
bool has_copies_of_nobody(const Partition& partition);
int64_t checksum_of_copies(const Partition& partition);

// Copies this rank's part. When every rank of `to` has done so, it is complete
// but for copies that hosts keep of each other.
// Requires: the same parameters in the same order; `from` does not change.
// Throws: PeerLost.
void repartition(
    const Partition& from,
    const Partition& to,
    const Holders& holders);

} // namespace zero::shard

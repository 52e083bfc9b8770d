// Defines repartition(): what a rank has to have of parameters and optimizer
// state, out of the same partition over other ranks. Used when those who are
// left go on without a rank that was lost, or with one that is new.
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

// Copies the part that `rank` of `to` has: the caller's own, or, on one host,
// that of one that has no part in `from`. When every part is copied, `to` is
// complete but for copies that hosts keep of each other.
// Requires: the same parameters in the same order; `from` does not change.
// Throws: PeerLost.
void repartition(
    const Partition& from,
    const Partition& to,
    const Holders& holders,
    int rank);

} // namespace zero::shard

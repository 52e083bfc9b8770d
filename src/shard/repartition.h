// Defines repartition(): what a rank has to have of parameters and optimizer
// state, out of the same partition over other ranks. Used when those who are
// left go on without a rank that was lost, or with one that is new.
#pragma once

#include "shard/partition.h"

namespace zero::shard {

// Copies the part that `rank` of `to` has: the caller's own, or that of one
// that has no part in `from`. When every part is copied, `to` is complete. Of
// what every rank of `from` has in full, that of `source` is taken. Requires:
// the same parameters in the same order, on one host; `from` does not change.
void repartition(
    const Partition& from,
    const Partition& to,
    int source,
    int rank);

} // namespace zero::shard

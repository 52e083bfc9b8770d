// Defines repartition(): what a rank has to have of parameters and optimizer
// state, out of the same partition over other ranks. Used when those who are
// left go on without a rank that was lost.
#pragma once

#include "shard/partition.h"

namespace zero::shard {

// Copies this rank's part. When every rank of `to` has done so, it is complete.
// Of what every rank of `from` has in full, that of `source` is taken.
// Requires: the same parameters in the same order, on one host; `from` does not
// change.
void repartition(const Partition& from, const Partition& to, int source);

} // namespace zero::shard

// Defines reshard(): writes a checkpoint again, as so many ranks would have.
// Loading needs no such thing, it takes any number of ranks: this is for who
// wants files of another size.
#pragma once

#include <string>

#include "checkpoint/checkpoint_reader.h"

namespace zero::checkpoint {

// All shards of a checkpoint are open at once.
inline constexpr int kMaxReshardRanks = 512;

// A new checkpoint in `folder`, with the same step and date; returns its path.
// Every rank has an equal part of each tensor; rank 0 has the buffers. A block
// at a time is in memory. Requires: 1 to kMaxReshardRanks ranks. Throws:
// ConfigError if the folder is a checkpoint itself; IoError, CorruptionError.
std::string reshard(
    CheckpointReader& reader,
    const std::string& folder,
    int num_ranks);

} // namespace zero::checkpoint

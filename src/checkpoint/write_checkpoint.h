// Defines how a checkpoint is made by all ranks together: each writes its
// shard, then rank 0 the manifest; then it gets its name.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_writer.h"
#include "comm/shm/group.h"

namespace zero::checkpoint {

// What a rank saves.
struct Snapshot {
  int64_t step = 0;
  std::vector<ShardTensor> tensors;
  std::vector<at::Tensor> kept; // memory of those that nobody else keeps
  std::optional<Manifest> manifest; // of rank 0, without the shards
};

struct Destination {
  std::string folder; // rank 0's counts
  int keep = 0; // so many of the newest, 0: all
};

// Collective. Returns where the checkpoint is. Throws: IoError on every rank if
// it fails on one; nothing is left then.
std::string write_checkpoint(
    comm::Group& group,
    const Destination& destination,
    Snapshot& snapshot);

} // namespace zero::checkpoint

#include "checkpoint/reshard.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file_io.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/saved_tensors.h"
#include "checkpoint/shard_writer.h"

namespace zero::checkpoint {

namespace {

// The first ranks have one element more if it does not divide.
ElementRange equal_part(int64_t numel, int rank, int num_ranks) {
  const auto begin_of = [&](int64_t number) {
    return numel / num_ranks * number + std::min(number, numel % num_ranks);
  };
  return {begin_of(rank), begin_of(rank + 1)};
}

std::vector<ShardTensor> tensors_of_rank(
    const Manifest& manifest,
    int rank,
    int num_ranks) {
  std::vector<ShardTensor> tensors;
  for (const auto& saved : tensors_of(manifest)) {
    const bool is_buffer = saved.key == buffer_key(saved.name);
    // A buffer is read whole, so it is in one piece.
    const ElementRange part = !is_buffer
        ? equal_part(saved.numel(), rank, num_ranks)
        : rank == 0 ? ElementRange{0, saved.numel()}
                    : ElementRange{};
    if (part.numel() > 0) {
      tensors.push_back(
          {saved.key, saved.dtype, saved.sizes, {{part, nullptr}}});
    }
  }
  return tensors;
}

SavedShard write_rank(
    CheckpointReader& reader,
    const std::string& path,
    int rank,
    int num_ranks) {
  auto tensors = tensors_of_rank(reader.manifest(), rank, num_ranks);
  const at::Tensor random = reader.random_state(rank);
  if (random.defined()) {
    tensors.push_back(
        {kRandomKey,
         random.scalar_type(),
         random.sizes().vec(),
         {{{0, random.numel()},
           static_cast<const std::byte*>(random.const_data_ptr())}}});
  }
  return write_shard(
      path + '/' + shard_name(rank),
      tensors,
      [&](const ShardTensor& tensor, ElementRange range, std::byte* to) {
        reader.read(tensor.key, range, to);
      });
}

} // namespace

std::string reshard(
    CheckpointReader& reader,
    const std::string& folder,
    int num_ranks) {
  ZERO_CHECK(num_ranks >= 1 && num_ranks <= kMaxReshardRanks, num_ranks);
  std::error_code ignored;
  if (std::filesystem::exists(
          std::filesystem::path(folder) / kManifestName, ignored)) {
    throw ConfigError(c10::str(
        "'",
        folder,
        "' is a checkpoint itself. Fix: name a folder that is not there, or "
        "one for checkpoints"));
  }
  NewCheckpoint made(folder, reader.manifest().step);
  Manifest manifest = reader.manifest();
  manifest.shards.clear();
  for (int rank = 0; rank < num_ranks; ++rank) {
    manifest.shards.push_back(write_rank(reader, made.path(), rank, num_ranks));
  }
  base::write_file(made.path() + '/' + kManifestName, manifest.to_json());
  return made.commit();
}

} // namespace zero::checkpoint

// Defines checkpoints that no engine has made: of one parameter with any type,
// shape, strides and values, in two shards.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_writer.h"

namespace zero::test {

// Of a tensor without gaps, under the name "w".
inline void write_checkpoint_of(
    const std::filesystem::path& folder,
    const at::Tensor& tensor) {
  std::filesystem::create_directories(folder);
  checkpoint::Manifest manifest;
  manifest.libzero_version = "0";
  manifest.saved_at = "2026-01-02T03:04:05Z";
  manifest.optimizer = "SGD";
  manifest.configuration = "{}";
  manifest.parameters.push_back(
      {{"w"},
       tensor.scalar_type(),
       tensor.sizes().vec(),
       tensor.strides().vec(),
       true,
       0});
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  const auto element = static_cast<int64_t>(tensor.element_size());
  const int64_t half = tensor.numel() / 2;
  const std::vector<checkpoint::ElementRange> parts{
      {0, half}, {half, tensor.numel()}};
  for (int rank = 0; rank < 2; ++rank) {
    const auto& part = parts[static_cast<size_t>(rank)];
    manifest.shards.push_back(checkpoint::write_shard(
        folder / checkpoint::shard_name(rank),
        {{checkpoint::parameter_key("w"),
          tensor.scalar_type(),
          tensor.sizes().vec(),
          {{part, data + part.begin * element}}}}));
  }
  base::write_file(folder / checkpoint::kManifestName, manifest.to_json());
}

} // namespace zero::test

// Defines SavedTensor: the tensors of a checkpoint as its manifest has them,
// whichever ranks wrote them.
//
//   for (const auto& tensor : tensors_of(reader.manifest())) {
//     reader.read(tensor.key, {0, tensor.numel()}, to);
//   }
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace zero::checkpoint {

struct SavedTensor {
  std::string key; // in the shards
  std::string name; // in the module
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {}; // empty: row-major

  // Requires: a CheckpointReader has found all elements, so that it fits.
  int64_t numel() const;
  int64_t element_bytes() const;
  int64_t bytes() const;
};

// What a model is: parameters under their first names, and buffers.
std::vector<SavedTensor> weights_of(const Manifest& manifest);

// Those, and the optimizer's state.
std::vector<SavedTensor> tensors_of(const Manifest& manifest);

} // namespace zero::checkpoint

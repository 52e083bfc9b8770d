// Defines diff(): in what two checkpoints differ, whichever ranks saved them.
//
//   diff(a, b, [](const std::string& line) { std::cout << line << '\n'; });
//
// What does not matter to a training is left out: when they were saved, by
// which version, by how many ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/checkpoint_reader.h"

namespace zero::checkpoint {

struct DiffResult {
  int64_t num_facts = 0; // of the manifests, that differ
  int64_t num_tensors = 0; // that both have
  int64_t num_equal = 0; // of those, bit by bit

  bool is_equal() const {
    return num_facts == 0 && num_equal == num_tensors;
  }
};

// Says each difference in a line: first those of the manifests, then tensor by
// tensor. A few blocks at a time are in memory, or two windows of
// RowMajorReader for a tensor that is not in order. Throws: IoError,
// CorruptionError.
DiffResult diff(
    CheckpointReader& a,
    CheckpointReader& b,
    const std::function<void(const std::string&)>& say);

} // namespace zero::checkpoint

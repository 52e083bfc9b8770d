// Defines RowMajorReader: the elements of a tensor of a checkpoint in the order
// of their indices, the last one first to change. In a checkpoint they are in
// the order of memory, which differs for a parameter that is transposed.
//
//   RowMajorReader elements(reader, tensor);
//   elements.read({0, 1000}, to);
//
// Who reads from the beginning to the end needs no more memory than a window,
// however large the tensor is. One that is not in order is read whole for each
// window: a window is large, so that is seldom more than once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/saved_tensors.h"

namespace zero::checkpoint {

class RowMajorReader {
 public:
  static constexpr int64_t kWindowBytes = int64_t{64} << 20;

  // Throws: CorruptionError if the strides are those of no tensor without gaps.
  RowMajorReader(
      CheckpointReader& reader,
      SavedTensor tensor,
      int64_t window_bytes = kWindowBytes);

  // Throws: IoError, CorruptionError.
  void read(ElementRange range, std::byte* to);

 private:
  struct Dimension {
    int64_t size = 0;
    int64_t stride = 0; // in memory
    int64_t row_stride = 0; // in the order of indices
  };

  void find_dimensions();
  void fill_window(int64_t begin);

  CheckpointReader& reader_;
  SavedTensor tensor_;
  int64_t window_numel_;
  std::vector<Dimension> dimensions_; // the fastest in memory first
  bool is_in_order_ = true;
  std::unique_ptr<std::byte[]> window_;
  ElementRange in_window_; // in the order of indices
};

} // namespace zero::checkpoint

#include "checkpoint/row_major_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace zero::checkpoint {

RowMajorReader::RowMajorReader(
    CheckpointReader& reader,
    SavedTensor tensor,
    int64_t window_bytes)
    : reader_(reader),
      tensor_(std::move(tensor)),
      window_numel_(
          std::max<int64_t>(1, window_bytes / tensor_.element_bytes())) {
  if (!tensor_.strides.empty() && tensor_.numel() > 0) {
    find_dimensions();
  }
}

void RowMajorReader::find_dimensions() {
  int64_t row_stride = 1;
  for (size_t i = tensor_.sizes.size(); i-- > 0;) {
    if (tensor_.sizes[i] > 1) { // with 1 the stride says nothing
      dimensions_.push_back({tensor_.sizes[i], tensor_.strides[i], row_stride});
    }
    row_stride *= tensor_.sizes[i];
  }
  std::ranges::stable_sort(dimensions_, {}, &Dimension::stride);
  int64_t expected = 1;
  for (const auto& dimension : dimensions_) {
    if (dimension.stride != expected) {
      throw CorruptionError(c10::str(
          "'",
          reader_.folder(),
          "/",
          kManifestName,
          "' is not as it was saved: '",
          tensor_.name,
          "' has sizes ",
          c10::IntArrayRef(tensor_.sizes),
          " and strides ",
          c10::IntArrayRef(tensor_.strides),
          ", which leave gaps. Fix: take another checkpoint"));
    }
    is_in_order_ = is_in_order_ && dimension.row_stride == dimension.stride;
    expected *= dimension.size;
  }
}

void RowMajorReader::read(ElementRange range, std::byte* to) {
  if (is_in_order_) {
    reader_.read(tensor_.key, range, to);
    return;
  }
  while (range.numel() > 0) {
    if (range.begin < in_window_.begin || range.begin >= in_window_.end) {
      fill_window(range.begin);
    }
    const int64_t end = std::min(range.end, in_window_.end);
    const int64_t bytes = (end - range.begin) * tensor_.element_bytes();
    std::memcpy(
        to,
        window_.get() +
            (range.begin - in_window_.begin) * tensor_.element_bytes(),
        static_cast<size_t>(bytes));
    to += bytes;
    range.begin = end;
  }
}

// Goes through all elements as they lie in memory, counting their indices, and
// keeps those that belong into the window.
void RowMajorReader::fill_window(int64_t begin) {
  const int64_t numel = tensor_.numel();
  const auto element = static_cast<size_t>(tensor_.element_bytes());
  if (!window_) {
    window_ = std::make_unique_for_overwrite<std::byte[]>(
        element * static_cast<size_t>(std::min(numel, window_numel_)));
  }
  in_window_ = {}; // until it is filled
  const ElementRange wanted{begin, std::min(numel, begin + window_numel_)};
  const int64_t block_numel = kBlockBytes / tensor_.element_bytes();
  const auto block = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  std::vector<int64_t> index(dimensions_.size());
  int64_t row = 0; // the element's number in the order of indices
  for (int64_t first = 0; first < numel; first += block_numel) {
    const int64_t count = std::min(block_numel, numel - first);
    reader_.read(tensor_.key, {first, first + count}, block.get());
    for (int64_t i = 0; i < count; ++i) {
      if (row >= wanted.begin && row < wanted.end) {
        std::memcpy(
            window_.get() + static_cast<size_t>(row - wanted.begin) * element,
            block.get() + static_cast<size_t>(i) * element,
            element);
      }
      for (size_t d = 0; d < dimensions_.size(); ++d) {
        row += dimensions_[d].row_stride;
        if (++index[d] < dimensions_[d].size) {
          break;
        }
        row -= dimensions_[d].row_stride * dimensions_[d].size;
        index[d] = 0;
      }
    }
  }
  in_window_ = wanted;
}

} // namespace zero::checkpoint

#include "optim/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace zero::optim {

// at::parallel_for() would be the plain way, but it is a template: it runs on
// one thread unless whoever includes it compiles for OpenMP, and links the very
// copy of it that torch uses. A TensorIterator divides its elements inside of
// torch, so there is one over blocks: a byte stands for each, and is never
// touched.
void for_blocks(
    int64_t numel,
    c10::function_ref<void(int64_t begin, int64_t end)> body) {
  if (numel <= 0) {
    return;
  }
  const int64_t num_blocks = (numel + kBlock - 1) / kBlock;
  if (num_blocks == 1 || at::get_num_threads() == 1) {
    body(0, numel);
    return;
  }
  const at::Tensor blocks = at::empty({num_blocks}, at::kByte);
  const auto* first = static_cast<const char*>(blocks.const_data_ptr());
  const auto run = [&](char** data, const int64_t*, int64_t count, int64_t) {
    const int64_t begin = (data[0] - first) * kBlock;
    body(begin, std::min(numel, begin + count * kBlock));
  };
  auto iterator = at::TensorIterator::borrowing_nullary_op(blocks);
  iterator.for_each(run, /*grain_size=*/1);
}

} // namespace zero::optim

// Defines for_blocks(): a loop over elements on torch's own threads. The
// optimizers and norms of this folder call it;
// it blocks until all is done. Any thread may call it, also at the same time.
//
//   for_blocks(numel, [&](int64_t begin, int64_t end) {
//     scale(data + begin, end - begin);
//   });
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace zero::optim {

// What a thread does at least, in elements. The engine's journal copies one for
// each thread before it is updated: small enough that both stay in the cache.
constexpr int64_t kBlock = 16'384;

// Calls `body` for ranges that together are all of 0..numel. Each begins at a
// multiple of kBlock; how many there are is up to at::get_num_threads(). The
// body must not throw, nor use tensors.
void for_blocks(
    int64_t numel,
    c10::function_ref<void(int64_t begin, int64_t end)> body);

} // namespace zero::optim

// Defines the arithmetic of reductions: several arrays into one, in order.
#pragma once

#include <c10/core/ScalarType.h>
#include <zero/communicator.h>

#include <cstdint>

namespace zero::comm {

// Whether tensors of this type can be communicated.
bool is_supported(c10::ScalarType dtype);

// out[i] = inputs[0][i] op inputs[1][i] op ..., in this order; for a mean then
// divided by their number, or by `divisor` if it is not 0. float16 and bfloat16
// accumulate in float32, small integers in wider ones. `out` may be one of the
// inputs, but may not overlap one otherwise. Vectorised as this processor
// allows.
void reduce(
    ReduceOp op,
    c10::ScalarType dtype,
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    int divisor = 0);

// The same, one element at a time: what the tests hold the above against.
void reduce_scalar(
    ReduceOp op,
    c10::ScalarType dtype,
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel);

} // namespace zero::comm

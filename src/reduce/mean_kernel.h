// Defines the kernel that makes the mean of the ranks' gradients, in rank
// order. Used by Reducer for each slice this rank owns.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace zero::reduce {

// mean = (before * a + before * b + ...) / divisor. Without anything special
// before is 1 and the divisor the number of ranks.
struct MeanScale {
  double before = 1;
  double divisor = 1;
};

// out[i] = addend[i] + the mean of inputs[0][i], inputs[1][i], ..., summed in
// this order. There may be no addend, and no inputs. `out` may be the addend or
// an input, but may not overlap one otherwise. float or double.
void mean(
    c10::ScalarType dtype,
    void* out,
    const void* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale);

// The same, one element at a time: what the tests hold the above against.
void mean_scalar(
    c10::ScalarType dtype,
    void* out,
    const void* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale);

} // namespace zero::reduce

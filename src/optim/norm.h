// Defines norms of gradients that are spread over slices, and scaling. The
// engine calls these between the reduction of gradients and the update, to
// clip:
//
//   double total = 0;
//   for (const auto& slice : slices) {
//     total = combine(total, norm_power_sum(slice.gradient, p), p);
//   }                                       // then over the ranks, the same
//   way const double norm = finish(total, p); if (norm > limit)
//   scale(gradient, limit / norm);
//
// Any thread may call them. NaN and infinity in a gradient come out as such.
#pragma once

#include <ATen/core/Tensor.h>

namespace zero::optim {

// The sum of |x|^p over the elements, in double; for an infinite p their
// largest magnitude. The same bits whatever the number of threads and the
// processor. Requires: p > 0, a contiguous tensor on the CPU of a floating
// type.
double norm_power_sum(const at::Tensor& gradient, double p);

// Of two parts of a gradient, the number for both. 0 is that of no elements.
double combine(double a, double b, double p);

// The norm: the p-th root, except that a largest magnitude is one already.
double finish(double total, double p);

// Multiplies every element by `factor`; half precision in float, rounded once.
// Requires: as above.
void scale(const at::Tensor& tensor, double factor);

} // namespace zero::optim

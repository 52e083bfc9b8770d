// Defines make_kernels(), which fills a table with the loops for one kind of
// vectors. Included by kernels_*.cpp below the pragmas that choose
// instructions.
#pragma once

#include "optim/norm_loops.h"
#include "optim/update_loops.h"

namespace zero::optim {

// F and D are vectors of float and of double.
template <class F, class D>
constexpr Kernels make_kernels(const char* name) {
  using c10::BFloat16;
  using c10::Half;
  return {
      name,
      {adam_kernel<F, float>,
       adam_kernel<D, double>,
       adam_kernel<F, Half>,
       adam_kernel<F, BFloat16>},
      {sgd_kernel<F, float>,
       sgd_kernel<D, double>,
       sgd_kernel<F, Half>,
       sgd_kernel<F, BFloat16>},
      {scale_kernel<F, float>,
       scale_kernel<D, double>,
       scale_kernel<F, Half>,
       scale_kernel<F, BFloat16>},
      {fold_kernel<D, float, SumAbs>,
       fold_kernel<D, double, SumAbs>,
       fold_kernel<D, Half, SumAbs>,
       fold_kernel<D, BFloat16, SumAbs>},
      {fold_kernel<D, float, SumSquares>,
       fold_kernel<D, double, SumSquares>,
       fold_kernel<D, Half, SumSquares>,
       fold_kernel<D, BFloat16, SumSquares>},
      {fold_kernel<D, float, MaxAbs>,
       fold_kernel<D, double, MaxAbs>,
       fold_kernel<D, Half, MaxAbs>,
       fold_kernel<D, BFloat16, MaxAbs>}};
}

} // namespace zero::optim

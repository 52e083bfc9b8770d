// The kernels with AVX2, FMA and F16C. What comes after the pragmas is compiled
// for them, so whatever is not meant to be has to be included before; see Note
// [Same bits everywhere] for the contraction.
#if defined(__x86_64__)

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <immintrin.h>

#include "optim/kernel_tables.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#pragma GCC optimize("fp-contract=off")
#endif

#include "optim/lanes_avx2.h"
#include "optim/make_kernels.h"

namespace zero::optim {

constinit const Kernels kAvx2Kernels =
    make_kernels<Avx2Float, Avx2Double>("AVX2");

} // namespace zero::optim

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

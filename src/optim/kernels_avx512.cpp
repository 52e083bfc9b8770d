// The kernels with AVX-512. What comes after the pragmas is compiled for it, so
// whatever is not meant to be has to be included before; see Note [Same bits
// everywhere] for the contraction.
#if defined(__x86_64__)

#if !defined(__clang__) // gcc 12 takes exception to its own immintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <immintrin.h>

#include "optim/kernel_tables.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx2,fma,f16c")
#pragma GCC optimize("fp-contract=off")
#endif

#include "optim/lanes_avx512.h"
#include "optim/make_kernels.h"

namespace zero::optim {

constinit const Kernels kAvx512Kernels =
    make_kernels<Avx512Float, Avx512Double>("AVX-512");

} // namespace zero::optim

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

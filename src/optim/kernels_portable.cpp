// The kernels with what every processor of the kind has: NEON on ARM. See Note
// [Same bits everywhere] for the contraction. Here, other than in the files for
// AVX, conversions of c10 are used and come after the pragma: the compiler puts
// only what has the same options in line.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

#include "optim/kernel_tables.h"
#include "optim/lanes_portable.h"
#include "optim/make_kernels.h"

namespace zero::optim {

constinit const Kernels kPortableKernels =
    make_kernels<PortableFloat, PortableDouble>("portable");

} // namespace zero::optim

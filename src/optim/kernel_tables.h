// Declares the tables that kernels.cpp chooses from: defined in a file each, as
// each is compiled for other instructions. A table may be looked at anywhere,
// its functions called only where the processor has the instructions.
#pragma once

#include "optim/kernels.h"

namespace zero::optim {

#if defined(__x86_64__)
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx2Kernels;
#endif
extern const Kernels kPortableKernels;

} // namespace zero::optim

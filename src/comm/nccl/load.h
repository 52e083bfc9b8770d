// Defines what NcclGroup takes from outside: the module for NCCL, and torch's
// streams. Both are found at run time, since libzero links nothing of CUDA.
#pragma once

#include <c10/core/Device.h>

#include "comm/nccl/module.h"

namespace zero::comm {

// Whether this installation has a module for NCCL.
bool has_nccl_module();

// Throws: ConfigError if it has none, or one that cannot be loaded.
const ZeroNcclModule& load_nccl_module();

// The handle (cudaStream_t) of torch's current stream of a device, which has
// tensors already. Throws: ConfigError with a libtorch that does not tell.
void* current_stream(c10::Device device);

} // namespace zero::comm

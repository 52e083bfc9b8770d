// Defines where large CPU tensors of this process have their memory. libtorch
// takes it from malloc, which gives what is large back to the system as soon as
// it is free: in every step the gradients and activations of the step before
// were faulted in anew, page by page, a tenth of the step. Here they lie in
// blocks of huge pages, and a few of them are kept for the next tensor.
#pragma once

#include <cstddef>

namespace zero::base {

// Tensors below this stay with malloc.
constexpr size_t kLargeTensorBytes = 1 << 20;

// What is kept although no tensor has it, at most. More was not faster in a way
// that could be measured (docs/benchmarks).
constexpr size_t kIdleTensorBytes = 32 << 20;

// From now on; calling it again does nothing. A program that has an allocator
// of its own keeps it.
void keep_large_tensors();

struct TensorMemory {
  size_t used_bytes = 0; // by tensors
  size_t idle_bytes = 0;
};
TensorMemory large_tensor_memory();

} // namespace zero::base

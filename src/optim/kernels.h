// Defines the table of kernels that update parameters and measure gradients,
// once for each vector instruction set. Adam, Sgd and norm.h take the best that
// the processor has; tests hold every one of them against scalar_kernels().
//
//   kernels().adam[type_index(at::kFloat)](p, g, m, v, numel, factors);
//
// Kernels run on the calling thread, over arrays that are whole or parts of
// tensors, and start at any element. Arrays are apart from each other.
//
// Note [Same bits everywhere]
// Every version does the same operations in the same order for each element, so
// that a result does not depend on the processor, nor on where a slice begins.
// Where torch's vectorised operations fuse a multiplication and an addition,
// the kernels do so too, and nowhere else: compilers are told not to, and a
// processor without such an instruction computes it in software, slowly. So the
// bits are those of torch::optim on an x86 with AVX2, but for one thing:
// torch's square root is off by the last bit now and then, and ours is not.
// After an update by Adam about one parameter in 5000 shows it, in its last
// bit.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <vector>

namespace zero::optim {

// The numbers of one update by Adam. Each is rounded to the type of the states
// before it is used.
struct AdamFactors {
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double step_size = 0; // lr, over the bias correction of the first moment
  double root_correction = 1; // root of the second moment's bias correction
  double decay = 1; // the parameter is multiplied by it first
  double l2 = 0; // times the parameter, added to the gradient
};

// The numbers of one update by SGD.
struct SgdFactors {
  double lr = 0;
  double momentum = 0; // 0: there is no buffer
  double dampening = 0;
  double l2 = 0;
  bool nesterov = false;
  bool first = false; // the buffer has nothing yet
};

using AdamKernel = void (*)(
    void* parameter,
    const void* gradient,
    void* first_moment,
    void* second_moment,
    int64_t numel,
    const AdamFactors& factors);

using SgdKernel = void (*)(
    void* parameter,
    const void* gradient,
    void* buffer,
    int64_t numel,
    const SgdFactors& factors);

using ScaleKernel = void (*)(void* array, int64_t numel, double factor);

using FoldKernel = double (*)(const void* array, int64_t numel);

// One per type of parameter: see type_index().
template <class Kernel>
using PerType = std::array<Kernel, 4>;

struct Kernels {
  const char* name;
  PerType<AdamKernel> adam;
  PerType<SgdKernel> sgd;
  PerType<ScaleKernel> scale;
  // In double, and in an order that depends on `numel` alone.
  PerType<FoldKernel> sum_abs;
  PerType<FoldKernel> sum_squares;
  PerType<FoldKernel> max_abs; // NaN if there is one
};

// Where the kernels of a type are; -1 if there are none.
constexpr int type_index(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return 0;
    case c10::ScalarType::Double:
      return 1;
    case c10::ScalarType::Half:
      return 2;
    case c10::ScalarType::BFloat16:
      return 3;
    default:
      return -1;
  }
}

// The fastest on this processor.
const Kernels& kernels();

// All that this processor can run, fastest first.
std::vector<const Kernels*> supported_kernels();

// One element at a time, by other code: what the tests hold the others against.
const Kernels& scalar_kernels();

} // namespace zero::optim

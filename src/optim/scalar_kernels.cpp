// The scalar twins: the formulas as they are, one element at a time. See Note
// [Same bits everywhere] and Note [Sixteen accumulators] for what they pin
// down.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <type_traits>

#include "optim/kernels.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off", "no-tree-vectorize")
#endif

namespace zero::optim {

namespace {

// The type of gradients and states.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
void adam_scalar(
    void* parameter,
    const void* gradient,
    void* first_moment,
    void* second_moment,
    int64_t numel,
    const AdamFactors& by) {
  using C = Computed<T>;
  for (int64_t i = 0; i < numel; ++i) {
    T& p = static_cast<T*>(parameter)[i];
    C& m = static_cast<C*>(first_moment)[i];
    C& v = static_cast<C*>(second_moment)[i];
    C x = static_cast<C>(p);
    C g = static_cast<const C*>(gradient)[i];
    if (by.l2 != 0) {
      g = std::fma(x, static_cast<C>(by.l2), g);
    }
    x *= static_cast<C>(by.decay);
    m *= static_cast<C>(by.beta1);
    m = std::fma(g, static_cast<C>(1 - by.beta1), m);
    v *= static_cast<C>(by.beta2);
    v = std::fma(static_cast<C>(1 - by.beta2) * g, g, v);
    const C denominator = std::sqrt(v) / static_cast<C>(by.root_correction) +
        static_cast<C>(by.eps);
    const C change = static_cast<C>(-by.step_size) * m / denominator;
    p = static_cast<T>(x + change);
  }
}

template <class T>
void sgd_scalar(
    void* parameter,
    const void* gradient,
    void* buffer,
    int64_t numel,
    const SgdFactors& by) {
  using C = Computed<T>;
  for (int64_t i = 0; i < numel; ++i) {
    T& p = static_cast<T*>(parameter)[i];
    const C x = static_cast<C>(p);
    C g = static_cast<const C*>(gradient)[i];
    if (by.l2 != 0) {
      g = std::fma(x, static_cast<C>(by.l2), g);
    }
    if (buffer != nullptr) {
      C& b = static_cast<C*>(buffer)[i];
      const C momentum = static_cast<C>(by.momentum);
      const C rest = static_cast<C>(1 - by.dampening);
      b = by.first ? g : std::fma(g, rest, b * momentum);
      g = by.nesterov ? std::fma(b, momentum, g) : b;
    }
    p = static_cast<T>(std::fma(g, static_cast<C>(-by.lr), x));
  }
}

template <class T>
void scale_scalar(void* array, int64_t numel, double factor) {
  using C = Computed<T>;
  for (int64_t i = 0; i < numel; ++i) {
    T& x = static_cast<T*>(array)[i];
    x = static_cast<T>(static_cast<C>(x) * static_cast<C>(factor));
  }
}

double add_abs(double sum, double x) {
  return sum + std::abs(x);
}

double add_square(double sum, double x) {
  return sum + x * x;
}

double add(double a, double b) {
  return a + b;
}

double larger_abs(double most, double x) {
  return std::isnan(most) || std::abs(x) <= most ? most : std::abs(x);
}

using Binary = double (*)(double, double);

template <class T, Binary fold, Binary join>
double fold_scalar(const void* array, int64_t numel) {
  double sums[16] = {};
  for (int64_t i = 0; i < numel; ++i) {
    const auto x = static_cast<double>(static_cast<const T*>(array)[i]);
    sums[i % 16] = fold(sums[i % 16], x);
  }
  for (int64_t width = 8; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) {
      sums[k] = join(sums[k], sums[k + width]);
    }
  }
  return sums[0];
}

template <Binary fold, Binary join>
constexpr PerType<FoldKernel> fold_of_each_type() {
  return {
      fold_scalar<float, fold, join>,
      fold_scalar<double, fold, join>,
      fold_scalar<c10::Half, fold, join>,
      fold_scalar<c10::BFloat16, fold, join>};
}

constexpr Kernels kScalarKernels{
    "scalar",
    {adam_scalar<float>,
     adam_scalar<double>,
     adam_scalar<c10::Half>,
     adam_scalar<c10::BFloat16>},
    {sgd_scalar<float>,
     sgd_scalar<double>,
     sgd_scalar<c10::Half>,
     sgd_scalar<c10::BFloat16>},
    {scale_scalar<float>,
     scale_scalar<double>,
     scale_scalar<c10::Half>,
     scale_scalar<c10::BFloat16>},
    fold_of_each_type<add_abs, add>(),
    fold_of_each_type<add_square, add>(),
    fold_of_each_type<larger_abs, larger_abs>()};

} // namespace

const Kernels& scalar_kernels() {
  return kScalarKernels;
}

} // namespace zero::optim

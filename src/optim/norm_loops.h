// Defines sums and maxima over one array, and scaling, for any vectors: F of
// float and D of double. Included as update_loops.h is, and under its rule:
// templates only.
//
// Note [Sixteen accumulators]
// Element i is added to accumulator i % 16, whatever the width of the vectors;
// at the end the sixteen are added in the order of a tree. So sums have the
// same bits on every processor, and the additions do not wait for each other.
#pragma once

#include <cstdint>

#include "optim/update_loops.h"

namespace zero::optim {

constexpr int64_t kAccumulators = 16;

template <class D>
struct SumAbs {
  [[gnu::always_inline]] static D fold(D sum, D x) {
    return sum + magnitude(x);
  }
  [[gnu::always_inline]] static double join(double a, double b) {
    return a + b;
  }
};

template <class D>
struct SumSquares {
  [[gnu::always_inline]] static D fold(D sum, D x) {
    return sum + x * x;
  }
  [[gnu::always_inline]] static double join(double a, double b) {
    return a + b;
  }
};

template <class D>
struct MaxAbs {
  [[gnu::always_inline]] static D fold(D most, D x) {
    return larger_or_nan(most, magnitude(x));
  }
  [[gnu::always_inline]] static double join(double a, double b) {
    return a >= b || a != a ? a : b;
  }
};

template <class D, class T, template <class> class Fold>
double fold_kernel(const void* array, int64_t numel) {
  constexpr int64_t kVectors = kAccumulators / D::kLanes;
  const T* x = static_cast<const T*>(array);
  D sums[kVectors];
  for (int64_t k = 0; k < kVectors; ++k) {
    sums[k] = D::fill(0);
  }
  const auto add = [&sums](const T* from) {
    for (int64_t k = 0; k < kVectors; ++k) {
      sums[k] = Fold<D>::fold(sums[k], D::load(from + k * D::kLanes));
    }
  };
  int64_t i = 0;
  for (; i + kAccumulators <= numel; i += kAccumulators) {
    prefetch<D>(x, i);
    add(x + i);
  }
  T rest[kAccumulators] = {}; // zeros change nothing
  for (int64_t k = 0; i + k < numel; ++k) {
    rest[k] = x[i + k];
  }
  add(rest);
  double results[kAccumulators];
  for (int64_t k = 0; k < kVectors; ++k) {
    sums[k].store(results + k * D::kLanes);
  }
  for (int64_t width = kAccumulators / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) {
      results[k] = Fold<D>::join(results[k], results[k + width]);
    }
  }
  return results[0];
}

template <class V, class T>
struct ScalePass {
  T* array;
  V factor;

  [[gnu::always_inline]] void whole(int64_t i) const {
    (V::load(array + i) * factor).store(array + i);
  }
  [[gnu::always_inline]] void part(int64_t i, int64_t n) const {
    Copied<V, T> x(array + i, n);
    (V::load(x.values) * factor).store(x.values);
    x.back(array + i, n);
  }
  [[gnu::always_inline]] void ahead(int64_t i) const {
    prefetch<V>(array, i);
  }
};

template <class V, class T>
void scale_kernel(void* array, int64_t numel, double factor) {
  using Element = typename V::Element;
  const ScalePass<V, T> update{
      static_cast<T*>(array), V::fill(static_cast<Element>(factor))};
  pass<V>(update, update.array, numel);
}

} // namespace zero::optim

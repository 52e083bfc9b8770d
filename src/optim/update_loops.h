// Defines the updates by Adam and SGD, and scaling, as one pass over memory,
// for any vectors V: lanes_avx2.h shows what a V offers. Included by
// make_kernels.h below pragmas that choose instructions, so everything here is
// a template on V: a plain inline function would exist once for all of them.
//
// In a pass every array is read once and written once, in order. Memory is what
// it waits for, and there the processor's own prefetching has gaps: it ends at
// the end of a page, and several arrays at once are more than it follows well.
// So every line is asked for by name, a while before it is needed.
#pragma once

#include <cstdint>

#include "optim/kernels.h"

namespace zero::optim {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kAheadBytes = 4096;

// `update` has: whole(i) for the V::kLanes elements from i on; part(i, n) for n
// elements, fewer; ahead(i), which prefetches. `aligned` is the array whose
// alignment counts most.
template <class V, class Update, class T>
[[gnu::always_inline]] inline void pass(
    const Update& update,
    const T* aligned,
    int64_t numel) {
  constexpr int64_t kLine = kLineBytes / sizeof(typename V::Element);
  const auto past_line =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(aligned) % kLineBytes);
  const int64_t to_line =
      (kLineBytes - past_line) % kLineBytes / int64_t{sizeof(T)};
  const int64_t head = to_line < numel ? to_line : numel;
  int64_t i = 0;
  while (i < head) {
    const int64_t n = head - i < V::kLanes ? head - i : V::kLanes;
    update.part(i, n);
    i += n;
  }
  for (; i + kLine <= numel; i += kLine) {
    update.ahead(i);
    for (int64_t lane = 0; lane < kLine; lane += V::kLanes) {
      update.whole(i + lane);
    }
  }
  while (i < numel) {
    const int64_t n = numel - i < V::kLanes ? numel - i : V::kLanes;
    update.part(i, n);
    i += n;
  }
}

template <class V, class T>
[[gnu::always_inline]] inline void prefetch(const T* array, int64_t i) {
  __builtin_prefetch(reinterpret_cast<const char*>(array + i) + kAheadBytes);
}

// A few elements with room for a whole vector.
template <class V, class T>
struct Copied {
  T values[V::kLanes] = {};

  [[gnu::always_inline]] Copied(const T* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      values[i] = from[i];
    }
  }
  [[gnu::always_inline]] void back(T* to, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = values[i];
    }
  }
};

template <class V, class T>
struct AdamPass {
  using Element = typename V::Element;
  T* parameter;
  const Element* gradient;
  Element* first;
  Element* second;
  bool has_l2;
  V beta1, rest1, beta2, rest2, eps, root_correction, minus_step, decay, l2;

  [[gnu::always_inline]] void step(
      T* p,
      const Element* g,
      Element* m,
      Element* v) const {
    V x = V::load(p);
    V grad = V::load(g);
    if (has_l2) {
      grad = fused(x, l2, grad);
    }
    x = x * decay;
    const V mean = fused(grad, rest1, V::load(m) * beta1);
    const V square = fused(rest2 * grad, grad, V::load(v) * beta2);
    mean.store(m);
    square.store(v);
    const V denominator = root(square) / root_correction + eps;
    (x + minus_step * mean / denominator).store(p);
  }
  [[gnu::always_inline]] void whole(int64_t i) const {
    step(parameter + i, gradient + i, first + i, second + i);
  }
  [[gnu::always_inline]] void part(int64_t i, int64_t n) const {
    Copied<V, T> p(parameter + i, n);
    const Copied<V, Element> g(gradient + i, n);
    Copied<V, Element> m(first + i, n);
    Copied<V, Element> v(second + i, n);
    step(p.values, g.values, m.values, v.values);
    p.back(parameter + i, n);
    m.back(first + i, n);
    v.back(second + i, n);
  }
  [[gnu::always_inline]] void ahead(int64_t i) const {
    prefetch<V>(parameter, i);
    prefetch<V>(gradient, i);
    prefetch<V>(first, i);
    prefetch<V>(second, i);
  }
};

template <class V, class T>
void adam_kernel(
    void* parameter,
    const void* gradient,
    void* first_moment,
    void* second_moment,
    int64_t numel,
    const AdamFactors& by) {
  using Element = typename V::Element;
  const auto fill = [](double x) { return V::fill(static_cast<Element>(x)); };
  const AdamPass<V, T> update{
      static_cast<T*>(parameter),
      static_cast<const Element*>(gradient),
      static_cast<Element*>(first_moment),
      static_cast<Element*>(second_moment),
      by.l2 != 0,
      fill(by.beta1),
      fill(1 - by.beta1),
      fill(by.beta2),
      fill(1 - by.beta2),
      fill(by.eps),
      fill(by.root_correction),
      fill(-by.step_size),
      fill(by.decay),
      fill(by.l2)};
  pass<V>(update, update.first, numel);
}

template <class V, class T>
struct SgdPass {
  using Element = typename V::Element;
  T* parameter;
  const Element* gradient;
  Element* buffer; // null: no momentum
  bool has_l2, nesterov, is_first;
  V minus_lr, momentum, rest, l2;

  [[gnu::always_inline]] void step(T* p, const Element* g, Element* b) const {
    const V x = V::load(p);
    V grad = V::load(g);
    if (has_l2) {
      grad = fused(x, l2, grad);
    }
    if (buffer != nullptr) {
      V mean = grad;
      if (!is_first) {
        mean = fused(grad, rest, V::load(b) * momentum);
      }
      mean.store(b);
      grad = nesterov ? fused(mean, momentum, grad) : mean;
    }
    fused(grad, minus_lr, x).store(p);
  }
  [[gnu::always_inline]] void whole(int64_t i) const {
    step(parameter + i, gradient + i, buffer == nullptr ? nullptr : buffer + i);
  }
  [[gnu::always_inline]] void part(int64_t i, int64_t n) const {
    const int64_t num_kept = buffer == nullptr ? 0 : n;
    Copied<V, T> p(parameter + i, n);
    const Copied<V, Element> g(gradient + i, n);
    Copied<V, Element> b(num_kept == 0 ? nullptr : buffer + i, num_kept);
    step(p.values, g.values, b.values);
    p.back(parameter + i, n);
    b.back(num_kept == 0 ? nullptr : buffer + i, num_kept);
  }
  [[gnu::always_inline]] void ahead(int64_t i) const {
    prefetch<V>(parameter, i);
    prefetch<V>(gradient, i);
    if (buffer != nullptr) {
      prefetch<V>(buffer, i);
    }
  }
};

template <class V, class T>
void sgd_kernel(
    void* parameter,
    const void* gradient,
    void* buffer,
    int64_t numel,
    const SgdFactors& by) {
  using Element = typename V::Element;
  const auto fill = [](double x) { return V::fill(static_cast<Element>(x)); };
  const SgdPass<V, T> update{
      static_cast<T*>(parameter),
      static_cast<const Element*>(gradient),
      static_cast<Element*>(buffer),
      by.l2 != 0,
      by.nesterov,
      by.first,
      fill(-by.lr),
      fill(by.momentum),
      fill(1 - by.dampening),
      fill(by.l2)};
  pass<V>(update, update.gradient, numel);
}

} // namespace zero::optim

// Defines vectors of 4 float and 2 double for the loops of update_loops.h and
// norm_loops.h, in the compilers' own terms: NEON on ARM, SSE2 on x86. Roots
// and fused multiplications have no such terms; without their instructions they
// go element by element, and so do halves. Included only by
// kernels_portable.cpp, below its pragmas.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace zero::optim {

struct PortableFloat {
  using Element = float;
  static constexpr int64_t kLanes = 4;
  using Vector [[gnu::vector_size(16)]] = float;
  using Bits [[gnu::vector_size(16)]] = uint32_t;
  using Short [[gnu::vector_size(8)]] = uint16_t;
  Vector value;

  [[gnu::always_inline]] static PortableFloat fill(float x) {
    return {Vector{x, x, x, x}};
  }
  [[gnu::always_inline]] static PortableFloat load(const float* from) {
    Vector result;
    std::memcpy(&result, from, sizeof(Vector));
    return {result};
  }
  [[gnu::always_inline]] static PortableFloat load(const c10::Half* from) {
    return {Vector{from[0], from[1], from[2], from[3]}};
  }
  [[gnu::always_inline]] static PortableFloat load(const c10::BFloat16* from) {
    Short bits;
    std::memcpy(&bits, from, sizeof(Short));
    return {std::bit_cast<Vector>(__builtin_convertvector(bits, Bits) << 16)};
  }

  [[gnu::always_inline]] void store(float* to) const {
    std::memcpy(to, &value, sizeof(Vector));
  }
  [[gnu::always_inline]] void store(c10::Half* to) const {
    for (int64_t i = 0; i < kLanes; ++i) {
      to[i] = value[i];
    }
  }
  // To the nearest, to even when in the middle; NaN would round to infinity.
  [[gnu::always_inline]] void store(c10::BFloat16* to) const {
    const Bits bits = std::bit_cast<Bits>(value);
    const Bits rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16;
    const Bits nan = std::bit_cast<Bits>(value != value);
    const Bits result = (rounded & ~nan) | (nan & 0x7FC0);
    const Short narrow = __builtin_convertvector(result, Short);
    std::memcpy(static_cast<void*>(to), &narrow, sizeof(Short));
  }

  [[gnu::always_inline]] friend PortableFloat operator+(
      PortableFloat a,
      PortableFloat b) {
    return {a.value + b.value};
  }
  [[gnu::always_inline]] friend PortableFloat operator*(
      PortableFloat a,
      PortableFloat b) {
    return {a.value * b.value};
  }
  [[gnu::always_inline]] friend PortableFloat operator/(
      PortableFloat a,
      PortableFloat b) {
    return {a.value / b.value};
  }
  [[gnu::always_inline]] friend PortableFloat fused(
      PortableFloat a,
      PortableFloat b,
      PortableFloat c) {
#if defined(__aarch64__)
    return {vfmaq_f32(c.value, a.value, b.value)};
#else
    for (int64_t i = 0; i < kLanes; ++i) {
      c.value[i] = __builtin_fmaf(a.value[i], b.value[i], c.value[i]);
    }
    return c;
#endif
  }
  [[gnu::always_inline]] friend PortableFloat root(PortableFloat a) {
#if defined(__aarch64__)
    return {vsqrtq_f32(a.value)};
#elif defined(__SSE2__)
    return {_mm_sqrt_ps(a.value)};
#else
    for (int64_t i = 0; i < kLanes; ++i) {
      a.value[i] = __builtin_sqrtf(a.value[i]);
    }
    return a;
#endif
  }
};

struct PortableDouble {
  using Element = double;
  static constexpr int64_t kLanes = 2;
  using Vector [[gnu::vector_size(16)]] = double;
  using Bits [[gnu::vector_size(16)]] = uint64_t;
  Vector value;

  [[gnu::always_inline]] static PortableDouble fill(double x) {
    return {Vector{x, x}};
  }
  [[gnu::always_inline]] static PortableDouble load(const double* from) {
    Vector result;
    std::memcpy(&result, from, sizeof(Vector));
    return {result};
  }
  template <class Stored>
  [[gnu::always_inline]] static PortableDouble load(const Stored* from) {
    return {Vector{static_cast<double>(from[0]), static_cast<double>(from[1])}};
  }

  [[gnu::always_inline]] void store(double* to) const {
    std::memcpy(to, &value, sizeof(Vector));
  }

  [[gnu::always_inline]] friend PortableDouble operator+(
      PortableDouble a,
      PortableDouble b) {
    return {a.value + b.value};
  }
  [[gnu::always_inline]] friend PortableDouble operator*(
      PortableDouble a,
      PortableDouble b) {
    return {a.value * b.value};
  }
  [[gnu::always_inline]] friend PortableDouble operator/(
      PortableDouble a,
      PortableDouble b) {
    return {a.value / b.value};
  }
  [[gnu::always_inline]] friend PortableDouble fused(
      PortableDouble a,
      PortableDouble b,
      PortableDouble c) {
#if defined(__aarch64__)
    return {vfmaq_f64(c.value, a.value, b.value)};
#else
    for (int64_t i = 0; i < kLanes; ++i) {
      c.value[i] = __builtin_fma(a.value[i], b.value[i], c.value[i]);
    }
    return c;
#endif
  }
  [[gnu::always_inline]] friend PortableDouble root(PortableDouble a) {
#if defined(__aarch64__)
    return {vsqrtq_f64(a.value)};
#elif defined(__SSE2__)
    return {_mm_sqrt_pd(a.value)};
#else
    for (int64_t i = 0; i < kLanes; ++i) {
      a.value[i] = __builtin_sqrt(a.value[i]);
    }
    return a;
#endif
  }
  [[gnu::always_inline]] friend PortableDouble magnitude(PortableDouble a) {
    constexpr uint64_t kAllButSign = ~uint64_t{0} >> 1;
    return {std::bit_cast<Vector>(std::bit_cast<Bits>(a.value) & kAllButSign)};
  }
  // Comparisons with NaN are false.
  [[gnu::always_inline]] friend PortableDouble larger_or_nan(
      PortableDouble a,
      PortableDouble b) {
    for (int64_t i = 0; i < kLanes; ++i) {
      const bool keep =
          a.value[i] >= b.value[i] || __builtin_isnan(a.value[i]) != 0;
      a.value[i] = keep ? a.value[i] : b.value[i];
    }
    return a;
  }
};

} // namespace zero::optim

// Defines vectors of 8 float and 4 double for the loops of update_loops.h and
// norm_loops.h. Included only by kernels_avx2.cpp, below its pragmas.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <immintrin.h>

namespace zero::optim {

struct Avx2Float {
  using Element = float;
  static constexpr int64_t kLanes = 8;
  __m256 value;

  [[gnu::always_inline]] static Avx2Float fill(float x) {
    return {_mm256_set1_ps(x)};
  }
  [[gnu::always_inline]] static Avx2Float load(const float* from) {
    return {_mm256_loadu_ps(from)};
  }
  [[gnu::always_inline]] static Avx2Float load(const c10::Half* from) {
    const auto* bits = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtph_ps(_mm_loadu_si128(bits))};
  }
  [[gnu::always_inline]] static Avx2Float load(const c10::BFloat16* from) {
    const auto* bits = reinterpret_cast<const __m128i*>(from);
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(bits));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }

  [[gnu::always_inline]] void store(float* to) const {
    _mm256_storeu_ps(to, value);
  }
  [[gnu::always_inline]] void store(c10::Half* to) const {
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  // To the nearest, to even when in the middle; NaN would round to infinity.
  [[gnu::always_inline]] void store(c10::BFloat16* to) const {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i nan =
        _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i result =
        _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7FC0), nan);
    // Packing keeps to halves of the vector: what is wanted is in the first
    // and the third quarter.
    const __m256i packed =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(result, result), 0x08);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
  }

  [[gnu::always_inline]] friend Avx2Float operator+(Avx2Float a, Avx2Float b) {
    return {_mm256_add_ps(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx2Float operator*(Avx2Float a, Avx2Float b) {
    return {_mm256_mul_ps(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx2Float operator/(Avx2Float a, Avx2Float b) {
    return {_mm256_div_ps(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx2Float fused(
      Avx2Float a,
      Avx2Float b,
      Avx2Float c) {
    return {_mm256_fmadd_ps(a.value, b.value, c.value)};
  }
  [[gnu::always_inline]] friend Avx2Float root(Avx2Float a) {
    return {_mm256_sqrt_ps(a.value)};
  }
};

struct Avx2Double {
  using Element = double;
  static constexpr int64_t kLanes = 4;
  __m256d value;

  [[gnu::always_inline]] static Avx2Double fill(double x) {
    return {_mm256_set1_pd(x)};
  }
  [[gnu::always_inline]] static Avx2Double load(const double* from) {
    return {_mm256_loadu_pd(from)};
  }
  [[gnu::always_inline]] static Avx2Double load(const float* from) {
    return {_mm256_cvtps_pd(_mm_loadu_ps(from))};
  }
  [[gnu::always_inline]] static Avx2Double load(const c10::Half* from) {
    const auto* bits = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64(bits)))};
  }
  [[gnu::always_inline]] static Avx2Double load(const c10::BFloat16* from) {
    const auto* bits = reinterpret_cast<const __m128i*>(from);
    const __m128i wide = _mm_cvtepu16_epi32(_mm_loadl_epi64(bits));
    return {_mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(wide, 16)))};
  }

  [[gnu::always_inline]] void store(double* to) const {
    _mm256_storeu_pd(to, value);
  }

  [[gnu::always_inline]] friend Avx2Double operator+(
      Avx2Double a,
      Avx2Double b) {
    return {_mm256_add_pd(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx2Double operator*(
      Avx2Double a,
      Avx2Double b) {
    return {_mm256_mul_pd(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx2Double operator/(
      Avx2Double a,
      Avx2Double b) {
    return {_mm256_div_pd(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx2Double fused(
      Avx2Double a,
      Avx2Double b,
      Avx2Double c) {
    return {_mm256_fmadd_pd(a.value, b.value, c.value)};
  }
  [[gnu::always_inline]] friend Avx2Double root(Avx2Double a) {
    return {_mm256_sqrt_pd(a.value)};
  }
  [[gnu::always_inline]] friend Avx2Double magnitude(Avx2Double a) {
    return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.value)};
  }
  // The instruction gives `b` when one is NaN.
  [[gnu::always_inline]] friend Avx2Double larger_or_nan(
      Avx2Double a,
      Avx2Double b) {
    const __m256d nan = _mm256_cmp_pd(a.value, a.value, _CMP_UNORD_Q);
    return {_mm256_blendv_pd(_mm256_max_pd(a.value, b.value), a.value, nan)};
  }
};

} // namespace zero::optim

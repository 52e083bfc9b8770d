// Defines vectors of 16 float and 8 double for the loops of update_loops.h and
// norm_loops.h. Included only by kernels_avx512.cpp, below its pragmas.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <immintrin.h>

namespace zero::optim {

struct Avx512Float {
  using Element = float;
  static constexpr int64_t kLanes = 16;
  __m512 value;

  [[gnu::always_inline]] static Avx512Float fill(float x) {
    return {_mm512_set1_ps(x)};
  }
  [[gnu::always_inline]] static Avx512Float load(const float* from) {
    return {_mm512_loadu_ps(from)};
  }
  [[gnu::always_inline]] static Avx512Float load(const c10::Half* from) {
    const auto* bits = reinterpret_cast<const __m256i*>(from);
    return {_mm512_cvtph_ps(_mm256_loadu_si256(bits))};
  }
  [[gnu::always_inline]] static Avx512Float load(const c10::BFloat16* from) {
    const auto* bits = reinterpret_cast<const __m256i*>(from);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(bits));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }

  [[gnu::always_inline]] void store(float* to) const {
    _mm512_storeu_ps(to, value);
  }
  [[gnu::always_inline]] void store(c10::Half* to) const {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to),
        _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  // To the nearest, to even when in the middle; NaN would round to infinity.
  [[gnu::always_inline]] void store(c10::BFloat16* to) const {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd =
        _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i result =
        _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7FC0));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(result));
  }

  [[gnu::always_inline]] friend Avx512Float operator+(
      Avx512Float a,
      Avx512Float b) {
    return {_mm512_add_ps(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx512Float operator*(
      Avx512Float a,
      Avx512Float b) {
    return {_mm512_mul_ps(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx512Float operator/(
      Avx512Float a,
      Avx512Float b) {
    return {_mm512_div_ps(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx512Float fused(
      Avx512Float a,
      Avx512Float b,
      Avx512Float c) {
    return {_mm512_fmadd_ps(a.value, b.value, c.value)};
  }
  [[gnu::always_inline]] friend Avx512Float root(Avx512Float a) {
    return {_mm512_sqrt_ps(a.value)};
  }
};

struct Avx512Double {
  using Element = double;
  static constexpr int64_t kLanes = 8;
  __m512d value;

  [[gnu::always_inline]] static Avx512Double fill(double x) {
    return {_mm512_set1_pd(x)};
  }
  [[gnu::always_inline]] static Avx512Double load(const double* from) {
    return {_mm512_loadu_pd(from)};
  }
  [[gnu::always_inline]] static Avx512Double load(const float* from) {
    return {_mm512_cvtps_pd(_mm256_loadu_ps(from))};
  }
  [[gnu::always_inline]] static Avx512Double load(const c10::Half* from) {
    const auto* bits = reinterpret_cast<const __m128i*>(from);
    return {_mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(bits)))};
  }
  [[gnu::always_inline]] static Avx512Double load(const c10::BFloat16* from) {
    const auto* bits = reinterpret_cast<const __m128i*>(from);
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(bits));
    const __m256i shifted = _mm256_slli_epi32(wide, 16);
    return {_mm512_cvtps_pd(_mm256_castsi256_ps(shifted))};
  }

  [[gnu::always_inline]] void store(double* to) const {
    _mm512_storeu_pd(to, value);
  }

  [[gnu::always_inline]] friend Avx512Double operator+(
      Avx512Double a,
      Avx512Double b) {
    return {_mm512_add_pd(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx512Double operator*(
      Avx512Double a,
      Avx512Double b) {
    return {_mm512_mul_pd(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx512Double operator/(
      Avx512Double a,
      Avx512Double b) {
    return {_mm512_div_pd(a.value, b.value)};
  }
  [[gnu::always_inline]] friend Avx512Double fused(
      Avx512Double a,
      Avx512Double b,
      Avx512Double c) {
    return {_mm512_fmadd_pd(a.value, b.value, c.value)};
  }
  [[gnu::always_inline]] friend Avx512Double root(Avx512Double a) {
    return {_mm512_sqrt_pd(a.value)};
  }
  [[gnu::always_inline]] friend Avx512Double magnitude(Avx512Double a) {
    return {_mm512_abs_pd(a.value)};
  }
  // The instruction gives `b` when one is NaN.
  [[gnu::always_inline]] friend Avx512Double larger_or_nan(
      Avx512Double a,
      Avx512Double b) {
    const __mmask8 nan = _mm512_cmp_pd_mask(a.value, a.value, _CMP_UNORD_Q);
    return {_mm512_mask_mov_pd(_mm512_max_pd(a.value, b.value), nan, a.value)};
  }
};

} // namespace zero::optim

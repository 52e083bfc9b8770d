#include "reduce/mean_kernel.h"

#include <algorithm>

#include "base/error.h"

namespace zero::reduce {

namespace {

// Sums pass through a block that stays in the first-level cache, so that each
// input is read once, whatever their number. It is this small because memory
// delivers inputs that are read side by side faster than one after another.
constexpr int64_t kBlock = 64;

template <class T>
[[gnu::always_inline]] inline void mean_body(
    T* out,
    const T* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale) {
  alignas(64) T sums[kBlock];
  const T before = static_cast<T>(scale.before);
  const T divisor = static_cast<T>(scale.divisor);
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const int64_t length = std::min(kBlock, numel - begin);
    std::fill_n(sums, length, T(0));
    for (int n = 0; n < num_inputs; ++n) {
      const T* input = static_cast<const T*>(inputs[n]) + begin;
      for (int64_t i = 0; i < length; ++i) {
        sums[i] += before * input[i];
      }
    }
    T* result = out + begin;
    if (addend != nullptr) {
      const T* added = addend + begin;
#pragma GCC ivdep // `out` is the addend or apart from it
      for (int64_t i = 0; i < length; ++i) {
        result[i] = added[i] + sums[i] / divisor;
      }
    } else {
      for (int64_t i = 0; i < length; ++i) {
        result[i] = sums[i] / divisor;
      }
    }
  }
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2")]] void mean_avx2(
    T* out,
    const T* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale) {
  mean_body(out, addend, inputs, num_inputs, numel, scale);
}

bool has_avx2() {
  static const bool yes = __builtin_cpu_supports("avx2") != 0;
  return yes;
}
#endif

template <class T>
void mean_vectorised(
    void* out,
    const void* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale) {
  auto* to = static_cast<T*>(out);
  const auto* added = static_cast<const T*>(addend);
#if defined(__x86_64__)
  if (has_avx2()) {
    mean_avx2(to, added, inputs, num_inputs, numel, scale);
    return;
  }
#endif
  mean_body(to, added, inputs, num_inputs, numel, scale);
}

template <class T>
void mean_one_by_one(
    void* out,
    const void* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale) {
  for (int64_t i = 0; i < numel; ++i) {
    T sum = 0;
    for (int n = 0; n < num_inputs; ++n) {
      sum += static_cast<T>(scale.before) * static_cast<const T*>(inputs[n])[i];
    }
    const T mean = sum / static_cast<T>(scale.divisor);
    static_cast<T*>(out)[i] =
        addend == nullptr ? mean : static_cast<const T*>(addend)[i] + mean;
  }
}

} // namespace

void mean(
    c10::ScalarType dtype,
    void* out,
    const void* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale) {
  ZERO_CHECK(dtype == c10::kFloat || dtype == c10::kDouble);
  const auto kernel =
      dtype == c10::kFloat ? mean_vectorised<float> : mean_vectorised<double>;
  kernel(out, addend, inputs, num_inputs, numel, scale);
}

void mean_scalar(
    c10::ScalarType dtype,
    void* out,
    const void* addend,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    MeanScale scale) {
  const auto kernel =
      dtype == c10::kFloat ? mean_one_by_one<float> : mean_one_by_one<double>;
  kernel(out, addend, inputs, num_inputs, numel, scale);
}

} // namespace zero::reduce

#include "comm/reduce_kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <type_traits>

#include "base/error.h"

namespace zero::comm {

namespace {

// The type sums are taken in. Unsigned where they may wrap around.
template <class T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<c10::Half> {
  using type = float;
};
template <>
struct Accumulator<c10::BFloat16> {
  using type = float;
};
template <>
struct Accumulator<int8_t> {
  using type = int32_t;
};
template <>
struct Accumulator<uint8_t> {
  using type = int32_t;
};
template <>
struct Accumulator<int32_t> {
  using type = int64_t;
};

template <class A>
[[gnu::always_inline]] inline bool is_nan(A value) {
  if constexpr (std::is_floating_point_v<A>) {
    return __builtin_isnan(value);
  }
  return false;
}

template <ReduceOp op, class A>
[[gnu::always_inline]] inline A apply(A a, A b) {
  // A NaN stays, whichever side it is on; comparisons with one are false.
  if constexpr (op == ReduceOp::max) {
    return is_nan(a) || !(b > a || is_nan(b)) ? a : b;
  } else if constexpr (op == ReduceOp::min) {
    return is_nan(a) || !(b < a || is_nan(b)) ? a : b;
  } else if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <class T, ReduceOp op>
[[gnu::always_inline]] inline T finish(
    typename Accumulator<T>::type value,
    int divisor) {
  if constexpr (op == ReduceOp::mean) {
    value = value / static_cast<typename Accumulator<T>::type>(divisor);
  }
  return static_cast<T>(value);
}

// Sums pass through a block that stays in the first-level cache, so that each
// input is read once, whatever their number.
constexpr int64_t kBlock = 1024;

// The processor's own prefetching stops at the end of a page, which is about a
// block; so the block after next is asked for by name.
template <class T>
[[gnu::always_inline]] inline void prefetch_ahead(
    const void* input,
    int64_t at) {
  const auto* ahead =
      reinterpret_cast<const char*>(static_cast<const T*>(input) + at + kBlock);
  for (size_t i = 0; i < kBlock * sizeof(T); i += 64) {
    __builtin_prefetch(ahead + i);
  }
}

template <class T, ReduceOp op>
[[gnu::always_inline]] inline void reduce_body(
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    int divisor) {
  using A = typename Accumulator<T>::type;
  alignas(64) A sums[kBlock];
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const int64_t length = std::min(kBlock, numel - begin);
    for (int n = 0; n < num_inputs && begin + 2 * kBlock <= numel; ++n) {
      prefetch_ahead<T>(inputs[n], begin);
    }
    T* result = static_cast<T*>(out) + begin;
    const T* first = static_cast<const T*>(inputs[0]) + begin;
    if (num_inputs == 2) { // in one pass, the most frequent case
      const T* second = static_cast<const T*>(inputs[1]) + begin;
#pragma GCC ivdep // `out` is an input or apart from them
      for (int64_t i = 0; i < length; ++i) {
        const A a = static_cast<A>(first[i]);
        const A b = static_cast<A>(second[i]);
        result[i] = finish<T, op>(apply<op>(a, b), divisor);
      }
      continue;
    }
    for (int64_t i = 0; i < length; ++i) {
      sums[i] = static_cast<A>(first[i]);
    }
    for (int n = 1; n < num_inputs; ++n) {
      const T* input = static_cast<const T*>(inputs[n]) + begin;
      for (int64_t i = 0; i < length; ++i) {
        const A a = sums[i];
        sums[i] = apply<op>(a, static_cast<A>(input[i]));
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      result[i] = finish<T, op>(sums[i], divisor);
    }
  }
}

using Kernel = void (*)(void*, const void* const*, int, int64_t, int);

template <class T, ReduceOp op>
void reduce_portable(
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    int divisor) {
  reduce_body<T, op>(out, inputs, num_inputs, numel, divisor);
}

template <class T, ReduceOp op>
[[gnu::optimize("no-tree-vectorize")]] void reduce_one_by_one(
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    int divisor) {
  using A = typename Accumulator<T>::type;
  for (int64_t i = 0; i < numel; ++i) {
    A sum = static_cast<A>(static_cast<const T*>(inputs[0])[i]);
    for (int n = 1; n < num_inputs; ++n) {
      const A value = static_cast<A>(static_cast<const T*>(inputs[n])[i]);
      sum = apply<op>(sum, value);
    }
    static_cast<T*>(out)[i] = finish<T, op>(sum, divisor);
  }
}

#if defined(__x86_64__)
template <class T, ReduceOp op>
[[gnu::target("avx2")]] void reduce_avx2(
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    int divisor) {
  reduce_body<T, op>(out, inputs, num_inputs, numel, divisor);
}

bool has_avx2() {
  static const bool yes = __builtin_cpu_supports("avx2") != 0;
  return yes;
}
#endif

struct Vectorised {
  template <class T, ReduceOp op>
  static Kernel kernel() {
#if defined(__x86_64__)
    if (has_avx2()) {
      return reduce_avx2<T, op>;
    }
#endif
    return reduce_portable<T, op>; // NEON by the compiler's own vectors
  }
};

struct OneByOne {
  template <class T, ReduceOp op>
  static Kernel kernel() {
    return reduce_one_by_one<T, op>;
  }
};

template <class How, class T>
Kernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return How::template kernel<T, ReduceOp::sum>();
    case ReduceOp::mean:
      return How::template kernel<T, ReduceOp::mean>();
    case ReduceOp::max:
      return How::template kernel<T, ReduceOp::max>();
    case ReduceOp::min:
      return How::template kernel<T, ReduceOp::min>();
  }
  return nullptr;
}

template <class How>
Kernel kernel_of(ReduceOp op, c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return kernel_of<How, float>(op);
    case c10::ScalarType::Double:
      return kernel_of<How, double>(op);
    case c10::ScalarType::Half:
      return kernel_of<How, c10::Half>(op);
    case c10::ScalarType::BFloat16:
      return kernel_of<How, c10::BFloat16>(op);
    case c10::ScalarType::Byte:
      return kernel_of<How, uint8_t>(op);
    case c10::ScalarType::Char:
      return kernel_of<How, int8_t>(op);
    case c10::ScalarType::Int:
      return kernel_of<How, int32_t>(op);
    case c10::ScalarType::Long:
      return kernel_of<How, int64_t>(op);
    default:
      return nullptr;
  }
}

} // namespace

bool is_supported(c10::ScalarType dtype) {
  return kernel_of<Vectorised>(ReduceOp::sum, dtype) != nullptr;
}

void reduce(
    ReduceOp op,
    c10::ScalarType dtype,
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel,
    int divisor) {
  const Kernel kernel = kernel_of<Vectorised>(op, dtype);
  ZERO_CHECK(kernel != nullptr, "no reduction of ", c10::toString(dtype));
  kernel(out, inputs, num_inputs, numel, divisor == 0 ? num_inputs : divisor);
}

void reduce_scalar(
    ReduceOp op,
    c10::ScalarType dtype,
    void* out,
    const void* const* inputs,
    int num_inputs,
    int64_t numel) {
  kernel_of<OneByOne>(op, dtype)(out, inputs, num_inputs, numel, num_inputs);
}

} // namespace zero::comm

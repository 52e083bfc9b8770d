#include "comm/stream_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zero::comm {

#if defined(__x86_64__)

namespace {

constexpr int64_t kVector = 32;
constexpr int64_t kLine = 2 * kVector;
constexpr int64_t kAhead = 2048;

[[gnu::target("avx2")]] void stream_lines(
    std::byte* to,
    const std::byte* from,
    int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kLine) {
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    auto* target = reinterpret_cast<__m256i*>(to + i);
    // Beyond the page, where the processor's own prefetching stops. Asking for
    // what is not there does no harm.
    _mm_prefetch(from + i + kAhead, _MM_HINT_T0);
    const __m256i first = _mm256_loadu_si256(source);
    const __m256i second = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, first);
    _mm256_stream_si256(target + 1, second);
  }
  // Such stores are not ordered with those that say that the data is there.
  _mm_sfence();
}

} // namespace

void stream_copy(void* to, const void* from, int64_t bytes) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  // Whole lines are streamed; what is before and after them is copied.
  const auto misaligned =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLine);
  const int64_t head =
      std::min(bytes, misaligned == 0 ? 0 : kLine - misaligned);
  const int64_t body = has_avx2 ? (bytes - head) / kLine * kLine : 0;
  const int64_t tail = bytes - head - body;
  if (head > 0) {
    std::memcpy(target, source, static_cast<size_t>(head));
  }
  if (body > 0) {
    stream_lines(target + head, source + head, body);
  }
  if (tail > 0) {
    std::memcpy(
        target + head + body, source + head + body, static_cast<size_t>(tail));
  }
}

#else

void stream_copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

#endif

} // namespace zero::comm

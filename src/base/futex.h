// Defines sleeping on a word of shared memory, within and across processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace zero::base {

// Sleeps while `word` is `expected`, at most `limit`. Returns for any reason;
// the caller looks again.
void futex_wait(
    const std::atomic<uint32_t>& word,
    uint32_t expected,
    std::chrono::nanoseconds limit);

// Wakes everybody who sleeps on `word`.
void futex_wake_all(const std::atomic<uint32_t>& word);

} // namespace zero::base

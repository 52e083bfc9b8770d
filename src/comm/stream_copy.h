// Defines a copy whose destination is not wanted in the cache: it does not read
// what it overwrites, so a large copy moves a third less through memory.
#pragma once

#include <cstdint>

namespace zero::comm {

// Like memcpy. Worth it when the destination will not be in the cache when it
// is next read, as with buffers larger than the cache.
void stream_copy(void* to, const void* from, int64_t bytes);

// Buffers from this size on are better written past the cache.
inline constexpr int64_t kStreamBytes = 8 << 20;

} // namespace zero::comm

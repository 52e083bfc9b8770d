// Defines hash_of(): whether ranks say the same, in one word. Not for what an
// adversary may choose.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero::base {

inline int64_t hash_of(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL; // FNV-1a
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return static_cast<int64_t>(hash);
}

} // namespace zero::base

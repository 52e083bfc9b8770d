// Defines the units in which memory is laid out, and rounding up to them.
#pragma once

#include <cstdint>
#include <type_traits>

namespace zero::base {

inline constexpr int64_t kCacheLine = 64;
inline constexpr int64_t kPage = 4096;

template <class Integer>
constexpr Integer round_up(Integer value, std::type_identity_t<Integer> unit) {
  return (value + unit - 1) / unit * unit;
}

} // namespace zero::base

// Defines one_of(): which share of its cases a long test goes through. All of
// them where there is time, `ctest -L soak`; every so-manieth in between.
#pragma once

#include <cstdlib>

namespace zero::test {

inline bool is_thorough() {
  return std::getenv("ZERO_TEST_THOROUGH") != nullptr;
}

// The distance from one case to the next.
inline int one_of(int usually) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return usually * 5; // everything takes ten times as long
#else
  return is_thorough() ? 1 : usually;
#endif
}

} // namespace zero::test

#include "base/memory.h"

#include <gtest/gtest.h>
#include <zero/error.h>

#include <string>

namespace zero::base {
namespace {

TEST(Memory, WhatIsAvailableMayBeTaken) {
  EXPECT_GT(available_memory(), 0);
  check_available_memory(0);
  check_available_memory(1 << 20);
}

TEST(Memory, WhatIsNotThereIsRefusedBeforeItIsTaken) {
  try {
    check_available_memory(int64_t{1} << 60);
    FAIL() << "an exabyte";
  } catch (const IoError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("1152921504606846976"), std::string::npos) << text;
    EXPECT_NE(text.find("Fix: "), std::string::npos) << text;
  }
}

} // namespace
} // namespace zero::base

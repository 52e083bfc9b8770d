#include "gather/slab.h"

#include <gtest/gtest.h>

#include <cstring>

namespace zero::gather {
namespace {

TEST(Slab, BlocksLieBesideEachOtherUntilItIsFull) {
  Slab slab(1024);
  std::byte* first = slab.allocate(512);
  std::byte* second = slab.allocate(500); // a line is 64 bytes
  ASSERT_NE(first, nullptr);
  ASSERT_EQ(second, first + 512);
  EXPECT_EQ(slab.allocate(1), nullptr);
  slab.free(first);
  EXPECT_EQ(slab.allocate(513), nullptr);
  EXPECT_EQ(slab.allocate(512), first);
}

TEST(Slab, TheFirstGapThatIsLargeEnoughIsTaken) {
  Slab slab(1024);
  std::byte* blocks[4];
  for (auto*& block : blocks) {
    block = slab.allocate(256);
  }
  slab.free(blocks[0]);
  slab.free(blocks[2]);
  slab.free(blocks[3]);
  EXPECT_EQ(slab.allocate(300), blocks[2]);
  EXPECT_EQ(slab.allocate(200), blocks[0]);
}

TEST(Slab, WhatDoesNotFitLiesApart) {
  Slab slab(64);
  EXPECT_EQ(slab.allocate(1 << 20), nullptr);
  for (const int64_t bytes : {64, 1 << 20, 5 << 20}) {
    std::byte* block = slab.allocate_apart(bytes);
    std::memset(block, 1, static_cast<size_t>(bytes));
    slab.free(block);
    EXPECT_EQ(slab.allocate_apart(bytes), block); // kept for the next time
    slab.free(block);
  }
  slab.free_unused();
  EXPECT_NE(slab.allocate(64), nullptr);
}

TEST(Slab, UnitsOfNoBytesHavePlacesOfTheirOwn) {
  Slab slab(128);
  std::byte* first = slab.allocate(0);
  std::byte* second = slab.allocate(0);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
}

} // namespace
} // namespace zero::gather

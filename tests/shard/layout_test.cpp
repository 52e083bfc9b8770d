#include "shard/layout.h"

#include <gtest/gtest.h>

#include <random>

namespace zero::shard {
namespace {

// Every element of the space belongs to one rank, at one place of its shard.
void expect_partition(const Layout& layout) {
  std::vector<int64_t> next(static_cast<size_t>(layout.num_ranks()));
  int64_t covered = 0;
  layout.for_each_slice({0, layout.numel()}, [&](const OwnedSlice& slice) {
    auto& offset = next[static_cast<size_t>(slice.rank)];
    EXPECT_EQ(slice.range.begin, covered);
    EXPECT_EQ(slice.shard_offset, offset);
    covered = slice.range.end;
    offset += slice.range.numel();
  });
  EXPECT_EQ(covered, layout.numel());
  for (int rank = 0; rank < layout.num_ranks(); ++rank) {
    EXPECT_EQ(next[static_cast<size_t>(rank)], layout.shard_numel(rank));
  }
}

TEST(Layout, EveryElementHasOneOwner) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    Layout::Options options;
    const int count = static_cast<int>(random() % 6);
    for (int i = 0; i < count; ++i) {
      options.numels.push_back(random() % 3 == 0 ? 0 : random() % 700);
    }
    options.num_ranks = 1 + static_cast<int>(random() % 7);
    options.bucket_numel = 1 + random() % 300;
    expect_partition(Layout(options));
  }
}

TEST(Layout, SharesAreEqualWhereTheSizeDivides) {
  const Layout layout(
      {.numels = {4096, 512, 1024}, .num_ranks = 4, .bucket_numel = 1000});
  EXPECT_EQ(layout.padding(), 0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(layout.shard_numel(rank), (4096 + 512 + 1024) / 4);
  }
}

TEST(Layout, ParametersBeginOnCacheLinesAndPaddingIsStated) {
  const Layout layout(
      {.numels = {7, 0, 17, 16}, .num_ranks = 3, .bucket_numel = 64});
  EXPECT_EQ(layout.parameter(0).begin, 0);
  EXPECT_EQ(layout.parameter(1).numel(), 0);
  EXPECT_EQ(layout.parameter(2).begin, 16);
  EXPECT_EQ(layout.parameter(3).begin, 48);
  EXPECT_EQ(layout.numel(), 64);
  EXPECT_EQ(layout.padding(), 64 - 40);
}

TEST(Layout, MoreRanksThanElements) {
  const Layout layout({.numels = {3}, .num_ranks = 64, .bucket_numel = 1});
  EXPECT_EQ(layout.num_buckets(), 1);
  expect_partition(layout);
}

TEST(Layout, NothingAtAll) {
  const Layout layout({.numels = {}, .num_ranks = 2, .bucket_numel = 16});
  EXPECT_EQ(layout.num_buckets(), 0);
  EXPECT_EQ(layout.shard_numel(1), 0);
}

TEST(Layout, SlicesOfAParameterKnowTheirPlaceInTheShard) {
  const Layout layout(
      {.numels = {100, 100}, .num_ranks = 2, .bucket_numel = 64});
  // Parameter 1 begins at 112, inside the second bucket, [64, 128), whose
  // second half is rank 1's.
  std::vector<OwnedSlice> slices;
  layout.for_each_slice(layout.parameter(1), [&](const OwnedSlice& slice) {
    slices.push_back(slice);
  });
  ASSERT_FALSE(slices.empty());
  EXPECT_EQ(slices[0].rank, 1);
  EXPECT_EQ(slices[0].range.begin, 112);
  EXPECT_EQ(slices[0].range.end, 128);
  EXPECT_EQ(slices[0].shard_offset, 32 + (112 - 96));
}

} // namespace
} // namespace zero::shard

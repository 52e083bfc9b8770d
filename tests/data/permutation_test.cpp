#include "data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace zero::data {
namespace {

std::vector<int64_t> order_of(int64_t count, uint64_t key) {
  std::vector<int64_t> order;
  for (int64_t place = 0; place < count; ++place) {
    order.push_back(shuffled(place, count, key));
  }
  return order;
}

TEST(Permutation, EachNumberIsAtOnePlace) {
  for (int64_t count = 1; count < 300; ++count) {
    auto order = order_of(count, 7);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(order[static_cast<size_t>(i)], i) << count;
    }
  }
}

TEST(Permutation, KeysChooseOrders) {
  EXPECT_EQ(order_of(1000, 1), order_of(1000, 1));
  EXPECT_NE(order_of(1000, 1), order_of(1000, 2));
}

// Neighbours are as far apart as those of a random order: a third of the count.
TEST(Permutation, NeighboursAreFarApart) {
  constexpr int64_t kCount = 10007;
  for (const uint64_t key : {0, 1, 2, 3}) {
    const auto order = order_of(kCount, key);
    double distance = 0;
    int64_t fixed = 0;
    for (size_t i = 1; i < order.size(); ++i) {
      distance += std::abs(static_cast<double>(order[i] - order[i - 1]));
      fixed += order[i] == static_cast<int64_t>(i) ? 1 : 0;
    }
    EXPECT_NEAR(distance / kCount / kCount, 1.0 / 3, 0.02);
    EXPECT_LT(fixed, 8);
  }
}

// Every number is equally often at every place, over many keys.
TEST(Permutation, NoPlaceIsPreferred) {
  constexpr int kCount = 6;
  constexpr int kKeys = 6000;
  std::vector<int> seen(kCount * kCount);
  for (uint64_t key = 0; key < kKeys; ++key) {
    for (int64_t place = 0; place < kCount; ++place) {
      ++seen[static_cast<size_t>(
          place * kCount + shuffled(place, kCount, key))];
    }
  }
  for (const int times : seen) {
    EXPECT_NEAR(times, kKeys / kCount, 130); // four deviations and more
  }
}

TEST(Permutation, LargeCountsHaveRoom) {
  constexpr int64_t kCount = int64_t{1} << 62;
  EXPECT_NE(shuffled(0, kCount, 1), shuffled(kCount - 1, kCount, 1));
  EXPECT_LT(shuffled(kCount - 1, kCount, 1), kCount);
}

} // namespace
} // namespace zero::data

#include "gather/order.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace zero::gather {
namespace {

OrderOfUse after_step(std::initializer_list<int> uses) {
  OrderOfUse order(6);
  for (const int unit : uses) {
    order.use(unit);
  }
  order.end_step();
  return order;
}

TEST(OrderOfUse, NothingIsExpectedBeforeTheFirstStepIsOver) {
  OrderOfUse order(6);
  order.use(3);
  EXPECT_EQ(order.expected(0), -1);
  EXPECT_EQ(order.uses_until(3), OrderOfUse::kNever);
  EXPECT_EQ(order.num_surprises(), 0);
}

TEST(OrderOfUse, TheNextStepIsExpectedToBeLikeTheLast) {
  auto order = after_step({0, 1, 2, 1, 0});
  EXPECT_EQ(order.expected(0), 0);
  EXPECT_EQ(order.expected(3), 1);
  EXPECT_EQ(order.expected(5), -1);
  order.use(0);
  EXPECT_EQ(order.uses_until(1), 0);
  EXPECT_EQ(order.uses_until(0), 3);
  EXPECT_EQ(order.uses_until(5), OrderOfUse::kNever);
  EXPECT_EQ(order.num_surprises(), 0);
}

TEST(OrderOfUse, OperatorsThatFollowEachOtherAreOneUse) {
  auto order = after_step({0, 0, 0, 1, 1, 0});
  EXPECT_EQ(order.expected(0), 0);
  EXPECT_EQ(order.expected(1), 1);
  EXPECT_EQ(order.expected(2), 0);
  EXPECT_EQ(order.expected(3), -1);
}

TEST(OrderOfUse, WhatIsLeftOutIsPassedOver) {
  auto order = after_step({0, 1, 2, 3});
  order.use(0);
  order.use(2);
  EXPECT_EQ(order.num_surprises(), 1);
  EXPECT_EQ(order.expected(0), 3);
  EXPECT_EQ(order.uses_until(1), OrderOfUse::kNever);
}

TEST(OrderOfUse, WhatIsNewLeavesTheRestWhereItWas) {
  auto order = after_step({0, 1, 2});
  order.use(0);
  order.use(5);
  EXPECT_EQ(order.num_surprises(), 1);
  EXPECT_EQ(order.expected(0), 1);
  order.use(1);
  order.use(2);
  order.end_step();
  EXPECT_EQ(order.expected(1), 5);
}

TEST(OrderOfUse, AStepThatUsesNothingChangesNothing) {
  auto order = after_step({4, 2});
  order.end_step();
  EXPECT_EQ(order.expected(0), 4);
  EXPECT_EQ(order.expected(1), 2);
}

} // namespace
} // namespace zero::gather

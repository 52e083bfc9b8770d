#include "gather/residents.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace zero::gather {
namespace {

using Claim = Residents::Claim;
using State = Residents::State;

class ResidentsTest : public testing::Test {
 protected:
  static constexpr int kUnits = 3;
  static constexpr int kRanks = 4;

  Residents of(int local_rank) {
    return {reinterpret_cast<std::byte*>(memory_.data()), kRanks, local_rank};
  }

 private:
  std::vector<int64_t> memory_ = std::vector<int64_t>(
      Residents::bytes_for(kUnits, kRanks) / sizeof(int64_t) + 1);
};

TEST_F(ResidentsTest, OneBringsItForAll) {
  Residents first = of(0);
  Residents second = of(1);
  first.pin(1);
  EXPECT_EQ(first.claim(1, 1), Claim::absent);
  second.pin(1);
  EXPECT_EQ(second.claim(1, 1), Claim::arriving);
  first.arrived(1);
  EXPECT_EQ(second.claim(1, 1), Claim::present);
  EXPECT_EQ(second.state(0), State::absent);
  EXPECT_EQ(second.state(2), State::absent);
}

TEST_F(ResidentsTest, WhatIsPinnedIsNotDropped) {
  Residents first = of(0);
  Residents second = of(1);
  EXPECT_FALSE(first.begin_drop(0)); // it is not here
  first.pin(0);
  first.claim(0, 1);
  first.arrived(0);
  EXPECT_FALSE(second.begin_drop(0));
  first.unpin(0);
  ASSERT_TRUE(second.begin_drop(0));
  first.pin(0);
  EXPECT_EQ(first.claim(0, 1), Claim::arriving); // it has to be gone first
  second.end_drop(0);
  EXPECT_EQ(first.claim(0, 1), Claim::absent);
}

TEST_F(ResidentsTest, ValuesOfAnEarlierRoundAreBroughtAgain) {
  Residents first = of(0);
  Residents second = of(1);
  for (Residents* each : {&first, &second}) {
    each->pin(2);
  }
  first.claim(2, 7);
  first.arrived(2);
  EXPECT_EQ(second.claim(2, 8), Claim::stale);
  EXPECT_EQ(first.claim(2, 8), Claim::arriving);
  second.arrived(2);
  EXPECT_EQ(first.claim(2, 8), Claim::present);
}

TEST_F(ResidentsTest, WhoeverFailedLeavesItToTheNext) {
  Residents first = of(0);
  Residents second = of(1);
  first.pin(0);
  second.pin(0);
  first.claim(0, 1);
  first.failed(0);
  EXPECT_EQ(second.claim(0, 1), Claim::absent);
}

TEST_F(ResidentsTest, WhoWaitsLearnsForWhom) {
  Residents first = of(0);
  Residents third = of(2);
  third.pin(0);
  third.claim(0, 1);
  EXPECT_EQ(first.wait(0), 2); // after a moment
  third.arrived(0);
  EXPECT_EQ(first.wait(0), -1);
}

TEST_F(ResidentsTest, BytesStayWithinTheBudgetUnlessTheyMust) {
  Residents first = of(0);
  Residents second = of(1);
  EXPECT_TRUE(first.add_bytes_within(100, 60));
  EXPECT_FALSE(second.add_bytes_within(100, 60));
  second.add_bytes(60);
  EXPECT_EQ(first.bytes(), 120);
  first.subtract_bytes(60);
  EXPECT_TRUE(first.add_bytes_within(100, 40));
  EXPECT_EQ(second.bytes(), 100);
  EXPECT_EQ(second.peak_bytes(), 120);
}

TEST_F(ResidentsTest, PositionsAreEachRanksOwn) {
  Residents first = of(0);
  Residents last = of(kRanks - 1);
  last.set_position(5);
  EXPECT_EQ(first.position(0), 0);
  EXPECT_EQ(first.position(kRanks - 1), 5);
}

// What a unit stands for is memory that only its bringer writes, only who has
// pinned it reads, and only its dropper clears: ThreadSanitizer sees whether
// that is so.
TEST_F(ResidentsTest, RanksThatComeAndGoNeverSeeWhatIsNotThere) {
  std::vector<int> values(kUnits);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Residents residents = of(rank);
      std::mt19937 random(static_cast<unsigned>(rank));
      for (int i = 0; i < 2000; ++i) {
        const int unit = static_cast<int>(random() % kUnits);
        auto& value = values[static_cast<size_t>(unit)];
        if (random() % 3 == 0) {
          if (residents.begin_drop(unit)) {
            value = 0;
            residents.end_drop(unit);
          }
          continue;
        }
        residents.pin(unit);
        for (bool is_there = false; !is_there;) {
          switch (residents.claim(unit, 1)) {
            case Claim::absent:
              EXPECT_EQ(value, 0);
              value = unit + 1;
              residents.arrived(unit);
              break;
            case Claim::arriving:
              residents.wait(unit);
              break;
            case Claim::stale:
              ADD_FAILURE() << "there is one round";
              break;
            case Claim::present:
              is_there = true;
          }
        }
        EXPECT_EQ(value, unit + 1);
        residents.unpin(unit);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

} // namespace
} // namespace zero::gather

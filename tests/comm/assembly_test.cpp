// Ranks that agree on a new segment while others die at every point of it.
#include "comm/shm/assembly.h"

#include <gtest/gtest.h>
#include <zero/error.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace zero::comm {
namespace {

// Ranks as threads that can be dead: a dead one stops where it asks who is
// gone, which every step of the protocol does.
class Ranks {
 public:
  struct Death {};

  // `num_guests` come, too, and have the numbers after the ranks.
  explicit Ranks(int size, int num_guests = 0)
      : num_ranks_(size),
        num_guests_(num_guests),
        area_(base::SharedMapping::create(
            "assembly",
            Assembly::bytes_for(size, num_guests))),
        dead_(static_cast<size_t>(size + num_guests)),
        steps_left_(static_cast<size_t>(size + num_guests)),
        lets_in_(static_cast<size_t>(size), true),
        outcomes_(static_cast<size_t>(size + num_guests)) {
    for (auto& steps : steps_left_) {
      steps = 1'000'000'000;
    }
  }

  // `rank` dies after so many looks at the others.
  void doom(int rank, int steps) {
    steps_left_[static_cast<size_t>(rank)] = steps;
  }

  // It comes for another reason than to let guests in.
  void closes_the_door(int rank) {
    lets_in_[static_cast<size_t>(rank)] = false;
  }

  void run() {
    std::vector<std::thread> guests;
    for (int i = 0; i < num_guests_; ++i) {
      const int place =
          Assembly::take_place(area_->data(), num_ranks_, num_guests_, 100 + i)
              .value();
      guests.emplace_back([this, place] { visit(place); });
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      threads.emplace_back([this, rank] { live(rank); });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    is_over_ = true;
    for (auto& guest : guests) {
      guest.join();
    }
  }

  bool is_in(int place) const {
    return outcomes_[static_cast<size_t>(place)].segment != nullptr;
  }

  // All survivors have one segment, whose members include all of them; of the
  // guests, those who are members.
  void expect_agreement() {
    const base::SharedMapping* segment = nullptr;
    std::vector<int> members;
    for (size_t rank = 0; rank < dead_.size(); ++rank) {
      const bool is_uninvited = static_cast<int>(rank) >= num_ranks_ &&
          std::ranges::find(members, static_cast<int>(rank)) == members.end();
      if (dead_[rank] || is_uninvited) {
        EXPECT_TRUE(dead_[rank] || !is_in(static_cast<int>(rank)));
        continue;
      }
      const auto& outcome = outcomes_[rank];
      ASSERT_NE(outcome.segment, nullptr) << "rank " << rank;
      if (segment == nullptr) {
        segment = outcome.segment.get();
        members = outcome.members;
      }
      EXPECT_EQ(outcome.segment.get(), segment);
      EXPECT_EQ(outcome.members, members);
      EXPECT_NE(
          std::find(members.begin(), members.end(), static_cast<int>(rank)),
          members.end());
    }
  }

 private:
  void step(int rank) {
    if (--steps_left_[static_cast<size_t>(rank)] < 0) {
      throw Death();
    }
  }

  Assembly make(int place) {
    return {
        area_->data(),
        {.rank = place,
         .size = num_ranks_,
         .purpose = "test",
         .timeout_seconds = 60,
         .gone =
             [this, place](int other) {
               step(place);
               return dead_[static_cast<size_t>(other)].load();
             },
         .build =
             [](const std::vector<int>&) {
               return base::SharedMapping::create("made", 4096);
             },
         .num_guests = num_guests_,
         .lets_in =
             place < num_ranks_ && lets_in_[static_cast<size_t>(place)]}};
  }

  void live(int rank) {
    try {
      outcomes_[static_cast<size_t>(rank)] = make(rank).run();
    } catch (const Death&) {
      dead_[static_cast<size_t>(rank)] = true;
    }
  }

  void visit(int place) {
    try {
      Assembly assembly = make(place);
      std::optional<Assembly::Outcome> outcome;
      for (bool is_last = false; !outcome && !is_last;) {
        is_last = is_over_; // looked at first
        outcome = assembly.look();
        step(place);
        std::this_thread::yield();
      }
      outcomes_[static_cast<size_t>(place)] =
          outcome.value_or(Assembly::Outcome{});
    } catch (const Death&) {
      dead_[static_cast<size_t>(place)] = true;
    }
  }

  int num_ranks_;
  int num_guests_;
  std::atomic<bool> is_over_ = false;
  std::shared_ptr<base::SharedMapping> area_;
  std::vector<std::atomic<bool>> dead_;
  std::vector<std::atomic<int>> steps_left_;
  std::vector<bool> lets_in_;
  std::vector<Assembly::Outcome> outcomes_;
};

TEST(Assembly, EverybodyGetsTheSameSegment) {
  for (const int size : {1, 2, 5}) {
    Ranks ranks(size);
    ranks.run();
    ranks.expect_agreement();
  }
}

TEST(Assembly, AnyRankMayDieAtAnyStep) {
  const auto seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int size = 2 + static_cast<int>(random() % 4);
    Ranks ranks(size);
    // One at least stays.
    for (int rank = 0; rank < size - 1; ++rank) {
      if (random() % 2 == 0) {
        ranks.doom(rank, static_cast<int>(random() % 25));
      }
    }
    ranks.run();
    ranks.expect_agreement();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
  }
}

TEST(Assembly, GuestsAreLetInIfAllRanksDoSo) {
  Ranks open(3, 2);
  open.run();
  open.expect_agreement();
  EXPECT_TRUE(open.is_in(3));
  EXPECT_TRUE(open.is_in(4));

  Ranks closed(3, 2);
  closed.closes_the_door(2);
  closed.run();
  closed.expect_agreement();
  EXPECT_FALSE(closed.is_in(3));
  EXPECT_FALSE(closed.is_in(4));
}

TEST(Assembly, AGuestHasOnePlace) {
  auto area =
      base::SharedMapping::create("assembly", Assembly::bytes_for(2, 2));
  EXPECT_EQ(Assembly::take_place(area->data(), 2, 2, 7), 2);
  EXPECT_EQ(Assembly::take_place(area->data(), 2, 2, 7), 2);
  EXPECT_EQ(Assembly::take_place(area->data(), 2, 2, 9), 3);
  EXPECT_EQ(Assembly::take_place(area->data(), 2, 2, 11), std::nullopt);
  EXPECT_EQ(Assembly::guest_at(area->data(), 2, 3), 9);
}

TEST(Assembly, RanksAndGuestsMayDieAtAnyStep) {
  const auto seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int size = 2 + static_cast<int>(random() % 3);
    const int num_guests = 1 + static_cast<int>(random() % 2);
    Ranks ranks(size, num_guests);
    for (int place = 0; place < size + num_guests; ++place) {
      // One rank at least stays.
      if (place != size - 1 && random() % 2 == 0) {
        ranks.doom(place, static_cast<int>(random() % 40));
      }
    }
    if (random() % 4 == 0) {
      ranks.closes_the_door(0);
    }
    ranks.run();
    ranks.expect_agreement();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
  }
}

TEST(Assembly, ALivingRankThatDoesNotComeIsNamed) {
  auto area = base::SharedMapping::create("assembly", Assembly::bytes_for(2));
  Assembly assembly(
      area->data(),
      {.rank = 0,
       .size = 2,
       .purpose = "shrink",
       .timeout_seconds = 0.2,
       .gone = [](int) { return false; },
       .build =
           [](const std::vector<int>&) {
             return base::SharedMapping::create("made", 4096);
           }});
  try {
    assembly.run();
    ADD_FAILURE();
  } catch (const CommTimeout& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_EQ(error.operation(), "shrink");
  }
}

TEST(Assembly, NoMemoryIsAnErrorOnEveryRank) {
  auto area = base::SharedMapping::create("assembly", Assembly::bytes_for(3));
  std::atomic<int> errors = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Assembly assembly(
          area->data(),
          {.rank = rank,
           .size = 3,
           .purpose = "init",
           .timeout_seconds = 60,
           .gone = [](int) { return false; },
           .build = [](const std::vector<int>&)
               -> std::shared_ptr<base::SharedMapping> {
             throw IoError("no memory");
           }});
      try {
        assembly.run();
      } catch (const IoError&) {
        ++errors;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(errors, 3);
}

} // namespace
} // namespace zero::comm

// Ranks that agree on a new segment while others die at every point of it.
#include "comm/shm/assembly.h"

#include <gtest/gtest.h>
#include <zero/error.h>

#include <algorithm>
#include <atomic>
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

  explicit Ranks(int size)
      : area_(
            base::SharedMapping::create("assembly", Assembly::bytes_for(size))),
        dead_(static_cast<size_t>(size)),
        steps_left_(static_cast<size_t>(size)),
        outcomes_(static_cast<size_t>(size)) {
    for (auto& steps : steps_left_) {
      steps = 1'000'000'000;
    }
  }

  // `rank` dies after so many looks at the others.
  void doom(int rank, int steps) {
    steps_left_[static_cast<size_t>(rank)] = steps;
  }

  void run() {
    std::vector<std::thread> threads;
    const int size = static_cast<int>(dead_.size());
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([this, rank, size] { live(rank, size); });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }

  // All survivors have one segment, whose members include all of them.
  void expect_agreement() {
    const base::SharedMapping* segment = nullptr;
    std::vector<int> members;
    for (size_t rank = 0; rank < dead_.size(); ++rank) {
      if (dead_[rank]) {
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

  void live(int rank, int size) {
    try {
      Assembly assembly(
          area_->data(),
          {.rank = rank,
           .size = size,
           .purpose = "test",
           .timeout_seconds = 60,
           .gone =
               [this, rank](int other) {
                 step(rank);
                 return dead_[static_cast<size_t>(other)].load();
               },
           .build =
               [](const std::vector<int>&) {
                 return base::SharedMapping::create("made", 4096);
               }});
      outcomes_[static_cast<size_t>(rank)] = assembly.run();
    } catch (const Death&) {
      dead_[static_cast<size_t>(rank)] = true;
    }
  }

  std::shared_ptr<base::SharedMapping> area_;
  std::vector<std::atomic<bool>> dead_;
  std::vector<std::atomic<int>> steps_left_;
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

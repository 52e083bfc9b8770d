#include <gtest/gtest.h>
#include <zero/sampler.h>
#include <zero/zero.h>

#include <algorithm>
#include <vector>

#include "engine/error_of.h"

namespace zero::test {
namespace {

using Numbers = std::vector<int64_t>;

Numbers up_to(int64_t count) {
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(i);
  }
  return numbers;
}

// What `num_ranks` ranks take in so many batches of `batch` samples together.
Numbers taken(
    int num_ranks,
    int64_t num_samples,
    int64_t batch,
    int num_batches,
    SamplerOptions options) {
  Numbers all(static_cast<size_t>(batch * num_batches));
  run_threads(num_ranks, [&](World world) {
    Sampler sampler(num_samples, options);
    const int64_t own = batch / world.size();
    for (int number = 0; number < num_batches; ++number) {
      const auto samples = sampler.next(world, own);
      std::copy(
          samples.begin(),
          samples.end(),
          all.begin() + number * batch + world.rank() * own);
    }
  });
  return all;
}

TEST(Sampler, EveryEpochHasEverySampleOnce) {
  for (const bool shuffle : {false, true}) {
    // 35 samples in batches of 10: batches cross from one epoch to the next.
    const auto all = taken(2, 35, 10, 14, {.seed = 3, .shuffle = shuffle});
    std::vector<Numbers> epochs;
    for (size_t epoch = 0; epoch < 4; ++epoch) {
      const auto begin = all.begin() + static_cast<int64_t>(epoch) * 35;
      epochs.emplace_back(begin, begin + 35);
      auto sorted = epochs.back();
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, up_to(35));
      EXPECT_EQ(sorted == epochs.back(), !shuffle);
    }
    EXPECT_EQ(epochs[0] == epochs[1], !shuffle);
  }
}

TEST(Sampler, TheOrderDependsOnTheSeedAlone) {
  const auto one = taken(1, 100, 12, 20, {.seed = 5});
  for (const int ranks : {2, 3, 4, 6}) {
    EXPECT_EQ(taken(ranks, 100, 12, 20, {.seed = 5}), one) << ranks;
  }
  EXPECT_NE(taken(1, 100, 12, 20, {.seed = 6}), one);
}

TEST(Sampler, SeedsThatFollowEachOtherHaveTheirOwnEpochs) {
  const auto first = taken(1, 50, 50, 3, {.seed = 1});
  const auto second = taken(1, 50, 50, 3, {.seed = 2});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (int64_t other = 0; other < 3; ++other) {
      EXPECT_FALSE(std::equal(
          first.begin() + epoch * 50,
          first.begin() + (epoch + 1) * 50,
          second.begin() + other * 50));
    }
  }
}

TEST(Sampler, GoesOnWhereAnotherOneWasWithOtherRanks) {
  const auto all = taken(1, 30, 12, 5, {.seed = 9});
  SamplerState state;
  run_threads(2, [&](World world) {
    Sampler sampler(30, {.seed = 9});
    for (int batch = 0; batch < 3; ++batch) {
      sampler.next(world, 6);
    }
    EXPECT_EQ(sampler.epoch(), 1);
    if (world.rank() == 0) {
      state = sampler.state();
    }
  });
  EXPECT_EQ(state.position, 36);
  run_threads(3, [&](World world) {
    Sampler sampler(30, {.seed = 9});
    sampler.restore(state);
    const auto samples = sampler.next(world, 4);
    EXPECT_TRUE(std::equal(
        samples.begin(), samples.end(), all.begin() + 36 + 4 * world.rank()));
  });
}

TEST(Sampler, BadInputIsToldWhatIsWrong) {
  EXPECT_TRUE(has(error_of([] { Sampler(0); }), "at least one sample, got 0"));
  Sampler sampler(10, {.seed = 1});
  EXPECT_TRUE(
      has(error_of([&] { sampler.next(init(), 0); }), "for each rank, got 0"));
  const std::string text =
      error_of([&] { sampler.restore({.num_samples = 11, .seed = 1}); });
  EXPECT_TRUE(has(text, "expected the state of 10 samples")) << text;
  EXPECT_TRUE(has(text, "got 11")) << text;
}

TEST(Sampler, SharesAreEverythingOnce) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const int64_t count : {0, 1, 2, 7, 100}) {
      std::vector<std::pair<int64_t, int64_t>> shares(
          static_cast<size_t>(ranks));
      run_threads(ranks, [&](World world) {
        shares[static_cast<size_t>(world.rank())] = share_of(count, world);
      });
      int64_t end = 0;
      for (const auto& share : shares) {
        EXPECT_EQ(share.first, end);
        EXPECT_LE(share.second - share.first, count / ranks + 1);
        EXPECT_GE(share.second - share.first, count / ranks);
        end = share.second;
      }
      EXPECT_EQ(end, count);
    }
  }
}

} // namespace
} // namespace zero::test

// The sizes of a batch follow DeepSpeed's rule.
#include <gtest/gtest.h>
#include <zero/config.h>
#include <zero/error.h>

#include <limits>

#include "config/mistakes.h"

namespace zero::config {
namespace {

using Size = std::optional<int64_t>;

Config with(Size train, Size micro, Size accumulation) {
  Config config;
  config.train_batch_size = train;
  config.train_micro_batch_size_per_gpu = micro;
  config.gradient_accumulation_steps = accumulation;
  return config;
}

void expect_sizes(
    const BatchSizes& sizes,
    int64_t train,
    int64_t micro,
    int64_t accumulation) {
  EXPECT_EQ(sizes.train, train);
  EXPECT_EQ(sizes.micro, micro);
  EXPECT_EQ(sizes.accumulation, accumulation);
}

std::string error_of(const Config& config, int num_ranks) {
  try {
    config.batch_sizes(num_ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(BatchSizes, ThreeThatAgreeAreTaken) {
  expect_sizes(with(32, 16, 1).batch_sizes(2), 32, 16, 1);
  expect_sizes(with(32, 8, 2).batch_sizes(2), 32, 8, 2);
}

TEST(BatchSizes, ThreeThatDisagreeAreRefusedWithTheArithmetic) {
  EXPECT_EQ(
      error_of(with(33, 17, 2), 2),
      "train_batch_size is 33, but train_micro_batch_size_per_gpu 17 x "
      "gradient_accumulation_steps 2 x 2 ranks = 68. Fix: set train_batch_size "
      "to 68, or leave one of the three out to have it worked out");
  EXPECT_TRUE(mentions(error_of(with(32, 18, 1), 2), "x 2 ranks = 36"));
}

TEST(BatchSizes, OneThatIsMissingIsWorkedOut) {
  expect_sizes(with(32, 8, {}).batch_sizes(2), 32, 8, 2);
  expect_sizes(with(32, {}, 2).batch_sizes(2), 32, 8, 2);
  expect_sizes(with({}, 8, 2).batch_sizes(2), 32, 8, 2);
}

TEST(BatchSizes, TwoThatAreMissingAreWorkedOut) {
  expect_sizes(with(32, {}, {}).batch_sizes(2), 32, 16, 1);
  expect_sizes(with({}, 8, {}).batch_sizes(2), 16, 8, 1);
}

TEST(BatchSizes, WithoutAnyEachIsOne) {
  expect_sizes(Config().batch_sizes(1), 1, 1, 1);
  expect_sizes(Config().batch_sizes(3), 3, 1, 1);
}

TEST(BatchSizes, WhatDoesNotDivideIsRefusedWithTheArithmetic) {
  EXPECT_EQ(
      error_of(with(33, 17, {}), 2),
      "train_batch_size 33 does not give a whole gradient_accumulation_steps: "
      "33 / (train_micro_batch_size_per_gpu 17 x 2 ranks) leaves 33. Fix: set "
      "train_batch_size to a multiple of 34, or change the number of ranks");
  EXPECT_TRUE(mentions(error_of(with(33, {}, {}), 2), "a multiple of 2"));
  EXPECT_TRUE(mentions(error_of(with(4, {}, 8), 2), "a multiple of 16"));
  EXPECT_NE(error_of(with(1, {}, {}), 2), "");
}

TEST(BatchSizes, AccumulationAloneIsNotEnough) {
  EXPECT_TRUE(mentions(error_of(with({}, {}, 2), 2), "given alone"));
}

TEST(BatchSizes, SizesOfZeroOrLessAreRefused) {
  EXPECT_TRUE(mentions(error_of(with(0, 1, 1), 2), "train_batch_size: got 0"));
  EXPECT_TRUE(mentions(error_of(with({}, -1, {}), 2), "got -1"));
  EXPECT_TRUE(mentions(error_of(with(4, {}, 0), 2), "at least 1"));
  EXPECT_TRUE(mentions(error_of({}, 0), "ranks"));
}

TEST(BatchSizes, SizesThatOverflowAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(mentions(error_of(with({}, kMost, {}), 2), "64 bits"));
  EXPECT_TRUE(mentions(error_of(with({}, kMost, kMost), 1), "64 bits"));
  EXPECT_TRUE(mentions(error_of(with(1, kMost, {}), 3), "64 bits"));
}

TEST(BatchSizes, AMistakeElsewhereDoesNotMatter) {
  Config config = with(32, 16, 1);
  config.optimizer.lr = -1;
  expect_sizes(config.batch_sizes(2), 32, 16, 1);
}

TEST(BatchSizes, AutoIsWorkedOut) {
  const Config config = Config::from_json(
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": "auto",
          "gradient_accumulation_steps": "auto"})");
  expect_sizes(config.batch_sizes(4), 32, 8, 1);
}

} // namespace
} // namespace zero::config

// A configuration that was set by hand is held to the rules of a file.
#include <gtest/gtest.h>
#include <zero/config.h>
#include <zero/error.h>

#include <cmath>
#include <limits>

#include "config/mistakes.h"

namespace zero::config {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string complaint_about(const Config& config) {
  try {
    config.validate();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(Check, DefaultsAreRight) {
  EXPECT_EQ(complaint_about({}), "");
}

TEST(Check, AllMistakesAreNamedByTheirKeys) {
  Config config;
  config.optimizer.lr = -1;
  config.zero_optimization.stage = 7;
  config.libzero.timeout_seconds = 0;
  const std::string message = complaint_about(config);
  EXPECT_EQ(num_lines(message), 4U);
  EXPECT_TRUE(mentions(message, "configuration: 3 mistakes\n"));
  EXPECT_TRUE(mentions(message, "configuration: optimizer.params.lr: got -1"));
  EXPECT_TRUE(mentions(message, "zero_optimization.stage: got 7"));
  EXPECT_TRUE(mentions(message, "libzero.timeout_seconds: got 0"));
}

TEST(Check, WhatIsNoNumberIsRefusedEverywhere) {
  for (const double value : {kNan, kInfinity, -kInfinity}) {
    for (double Config::*field :
         {&Config::gradient_clipping, &Config::gradient_predivide_factor}) {
      Config config;
      config.*field = value;
      EXPECT_NE(complaint_about(config), "");
    }
    for (double OptimizerConfig::*field :
         {&OptimizerConfig::lr,
          &OptimizerConfig::weight_decay,
          &OptimizerConfig::eps}) {
      Config config;
      config.optimizer.*field = value;
      EXPECT_NE(complaint_about(config), "");
    }
    for (double OptimizerConfig::*field :
         {&OptimizerConfig::momentum, &OptimizerConfig::dampening}) {
      Config config;
      config.optimizer.type = OptimizerConfig::Type::sgd;
      config.optimizer.*field = value;
      EXPECT_NE(complaint_about(config), "");
    }
    Config config;
    config.optimizer.betas[1] = value;
    EXPECT_NE(complaint_about(config), "");
    config = {};
    config.libzero.progress_timeout_seconds = value;
    EXPECT_NE(complaint_about(config), "");
    config = {};
    config.libzero.gather_budget.share = value;
    EXPECT_NE(complaint_about(config), "");
    config = {};
    config.libzero.parameter_groups.push_back({.match = "a", .lr = value});
    EXPECT_NE(complaint_about(config), "");
  }
}

TEST(Check, TheNormMayBeInfiniteButNotLess) {
  Config config;
  config.libzero.clip_norm_type = kInfinity;
  EXPECT_EQ(complaint_about(config), "");
  for (const double type : {-kInfinity, kNan, 0.0, 3.0}) {
    config.libzero.clip_norm_type = type;
    EXPECT_NE(complaint_about(config), "");
  }
}

TEST(Check, OnlyTheChosenScheduleIsLookedAt) {
  Config config;
  config.scheduler.warmup_num_steps = 0;
  EXPECT_EQ(complaint_about(config), "");
  config.scheduler.type = SchedulerConfig::Type::warmup_lr;
  EXPECT_TRUE(mentions(
      complaint_about(config), "scheduler.params.warmup_num_steps: got 0"));
}

TEST(Check, ASchedulesEndMustBeSet) {
  Config config;
  config.scheduler.type = SchedulerConfig::Type::warmup_cosine_lr;
  EXPECT_TRUE(mentions(
      complaint_about(config), "scheduler.params.total_num_steps: got 0"));
}

TEST(Check, OnlyTheChosenOptimizerIsLookedAt) {
  Config config;
  config.optimizer.nesterov = true; // without momentum
  EXPECT_EQ(complaint_about(config), "");
  config.optimizer.type = OptimizerConfig::Type::sgd;
  EXPECT_TRUE(mentions(complaint_about(config), "optimizer.params.nesterov"));
}

TEST(Check, AccumulationAloneIsNotEnough) {
  Config config;
  config.gradient_accumulation_steps = 2;
  EXPECT_TRUE(mentions(complaint_about(config), "given alone"));
  config.train_micro_batch_size_per_gpu = 1;
  EXPECT_EQ(complaint_about(config), "");
}

TEST(Check, AValueThatCouldNotBeReadIsNotComplainedAboutTwice) {
  EXPECT_TRUE(has_one_mistake(
      R"({"gradient_accumulation_steps": 2, "train_batch_size": "4"})",
      "train_batch_size: got \"4\""));
}

TEST(Check, AnEnumOutOfRangeIsRefused) {
  Config config;
  config.libzero.accumulate = static_cast<LibzeroConfig::Accumulate>(7);
  EXPECT_TRUE(mentions(complaint_about(config), "libzero.accumulate"));
}

} // namespace
} // namespace zero::config

// Schedules against what DeepSpeed's own do.
#include "optim/schedule.h"

#include <gtest/gtest.h>

#include "optim/golden_schedules.h"

namespace zero::optim {
namespace {

OptimizerConfig optimizer_of(OptimizerConfig::Type type) {
  OptimizerConfig optimizer;
  optimizer.type = type;
  return optimizer;
}

TEST(Schedule, IsThatOfDeepSpeedForEveryUpdateAndGroup) {
  for (const auto& golden : golden_schedules()) {
    const auto schedule =
        Schedule::make(golden.config, optimizer_of(golden.optimizer));
    for (size_t step = 0; step < golden.updates.size(); ++step) {
      SCOPED_TRACE(golden.name + ", update " + std::to_string(step));
      const GoldenUpdate& expected = golden.updates[step];
      for (size_t group = 0; group < kGoldenLrs.size(); ++group) {
        const auto values =
            schedule->at(static_cast<int64_t>(step), kGoldenLrs[group]);
        EXPECT_DOUBLE_EQ(values.lr, expected.lrs[group]);
        EXPECT_DOUBLE_EQ(values.momentum, expected.beta1);
      }
    }
  }
}

TEST(Schedule, TheSecondBetaIsThatOfDeepSpeed) {
  for (const auto& golden : golden_schedules()) {
    const OptimizerConfig before = optimizer_of(golden.optimizer);
    const OptimizerConfig after = with_schedule(before, golden.config);
    EXPECT_EQ(after.betas[0], before.betas[0]);
    for (const GoldenUpdate& update : golden.updates) {
      const double expected = update.beta2 < 0 ? before.betas[1] : update.beta2;
      EXPECT_EQ(after.betas[1], expected) << golden.name;
    }
  }
}

TEST(Schedule, NoneLeavesTheRateAlone) {
  const auto schedule = Schedule::make({}, {});
  EXPECT_EQ(schedule->at(0, 0.25).lr, 0.25);
  EXPECT_EQ(schedule->at(1'000'000'000'000, 0.5).lr, 0.5);
  EXPECT_LT(schedule->at(3, 0.5).momentum, 0);
}

TEST(Schedule, AWarmUpSpendsTwoUpdatesAtItsLowestRate) {
  SchedulerConfig config;
  config.type = SchedulerConfig::Type::warmup_lr;
  config.warmup_min_lr = 0.125;
  const auto schedule = Schedule::make(config, {});
  EXPECT_EQ(schedule->at(0, 1).lr, 0.125);
  EXPECT_EQ(schedule->at(1, 1).lr, 0.125);
  EXPECT_GT(schedule->at(2, 1).lr, 0.125);
}

TEST(Schedule, EndsWhereItIsToEndHoweverLongARunIs) {
  SchedulerConfig config;
  config.total_num_steps = 100;
  config.warmup_num_steps = 10;
  config.type = SchedulerConfig::Type::warmup_decay_lr;
  EXPECT_EQ(Schedule::make(config, {})->at(1'000'000'000, 1).lr, 0);
  config.type = SchedulerConfig::Type::warmup_cosine_lr;
  config.cos_min_ratio = 0.25;
  EXPECT_EQ(Schedule::make(config, {})->at(1'000'000'000, 1).lr, 0.25);
}

} // namespace
} // namespace zero::optim

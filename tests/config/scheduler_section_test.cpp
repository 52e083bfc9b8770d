// Schedules are DeepSpeed's.
#include <gtest/gtest.h>
#include <zero/config.h>

#include "config/mistakes.h"

namespace zero::config {
namespace {

using SchedulerType = SchedulerConfig::Type;

std::string of_type(const std::string& type, const std::string& params) {
  return "{\"scheduler\": {\"type\": \"" + type + "\", \"params\": " + params +
      "}}";
}

SchedulerConfig read_scheduler(
    const std::string& type,
    const std::string& params) {
  return Config::from_json(of_type(type, params)).scheduler;
}

TEST(SchedulerSection, WithoutItThereIsNone) {
  EXPECT_EQ(Config::from_json("{}").scheduler.type, SchedulerType::none);
}

TEST(SchedulerSection, RangeTestIsRead) {
  const SchedulerConfig defaults = read_scheduler("LRRangeTest", "{}");
  EXPECT_EQ(defaults.type, SchedulerType::lr_range_test);
  EXPECT_EQ(defaults.lr_range_test_min_lr, 1e-3);
  EXPECT_EQ(defaults.lr_range_test_step_size, 2000);
  EXPECT_EQ(defaults.lr_range_test_step_rate, 1);
  EXPECT_FALSE(defaults.lr_range_test_staircase);
  const SchedulerConfig set = read_scheduler("LRRangeTest", R"({
      "lr_range_test_min_lr": 0.5, "lr_range_test_step_size": 3,
      "lr_range_test_step_rate": 2, "lr_range_test_staircase": true})");
  EXPECT_EQ(set.lr_range_test_min_lr, 0.5);
  EXPECT_EQ(set.lr_range_test_step_size, 3);
  EXPECT_EQ(set.lr_range_test_step_rate, 2);
  EXPECT_TRUE(set.lr_range_test_staircase);
}

TEST(SchedulerSection, OneCycleIsRead) {
  const SchedulerConfig defaults =
      read_scheduler("OneCycle", R"({"cycle_min_lr": 0.1, "cycle_max_lr": 1})");
  EXPECT_EQ(defaults.type, SchedulerType::one_cycle);
  EXPECT_EQ(defaults.cycle_first_step_size, 2000);
  EXPECT_EQ(defaults.cycle_second_step_size, std::nullopt);
  EXPECT_EQ(defaults.cycle_second_stair_count, std::nullopt);
  EXPECT_TRUE(defaults.cycle_momentum);
  EXPECT_EQ(defaults.cycle_min_mom, 0.8);
  EXPECT_EQ(defaults.cycle_max_mom, 0.9);
  const SchedulerConfig set = read_scheduler("OneCycle", R"({
      "cycle_min_lr": 0.25, "cycle_max_lr": 0.5, "decay_lr_rate": 0.125,
      "cycle_first_step_size": 1e3, "cycle_second_step_size": 7,
      "cycle_first_stair_count": 2, "cycle_second_stair_count": 0,
      "decay_step_size": 4, "cycle_momentum": false, "cycle_min_mom": 0.1,
      "cycle_max_mom": 0.2, "decay_mom_rate": -0.5})");
  EXPECT_EQ(set.cycle_min_lr, 0.25);
  EXPECT_EQ(set.cycle_max_lr, 0.5);
  EXPECT_EQ(set.decay_lr_rate, 0.125);
  EXPECT_EQ(set.cycle_first_step_size, 1000);
  EXPECT_EQ(set.cycle_second_step_size, 7);
  EXPECT_EQ(set.cycle_first_stair_count, 2);
  EXPECT_EQ(set.cycle_second_stair_count, 0);
  EXPECT_EQ(set.decay_step_size, 4);
  EXPECT_FALSE(set.cycle_momentum);
  EXPECT_EQ(set.cycle_min_mom, 0.1);
  EXPECT_EQ(set.cycle_max_mom, 0.2);
  EXPECT_EQ(set.decay_mom_rate, -0.5);
}

TEST(SchedulerSection, WarmupIsRead) {
  const SchedulerConfig defaults = read_scheduler("WarmupLR", "{}");
  EXPECT_EQ(defaults.type, SchedulerType::warmup_lr);
  EXPECT_EQ(defaults.warmup_min_lr, 0);
  EXPECT_EQ(defaults.warmup_max_lr, std::nullopt);
  EXPECT_EQ(defaults.warmup_num_steps, 1000);
  EXPECT_EQ(defaults.warmup_type, SchedulerConfig::Warmup::log);
  const SchedulerConfig set = read_scheduler("WarmupLR", R"({
      "warmup_min_lr": 0.1, "warmup_max_lr": 0.2, "warmup_num_steps": 5,
      "warmup_type": "linear"})");
  EXPECT_EQ(set.warmup_min_lr, 0.1);
  EXPECT_EQ(set.warmup_max_lr, 0.2);
  EXPECT_EQ(set.warmup_num_steps, 5);
  EXPECT_EQ(set.warmup_type, SchedulerConfig::Warmup::linear);
}

TEST(SchedulerSection, OnlyWarmupDecayHasAHighestRateOfItsOwn) {
  const char* params = R"({"total_num_steps": 10})";
  EXPECT_EQ(read_scheduler("WarmupDecayLR", params).warmup_max_lr, 0.001);
  EXPECT_EQ(
      read_scheduler(
          "WarmupDecayLR", R"({"total_num_steps": 9, "warmup_max_lr": null})")
          .warmup_max_lr,
      std::nullopt);
}

TEST(SchedulerSection, WarmupCosineIsRead) {
  const SchedulerConfig defaults =
      read_scheduler("WarmupCosineLR", R"({"total_num_steps": 10})");
  EXPECT_EQ(defaults.total_num_steps, 10);
  EXPECT_EQ(defaults.warmup_min_ratio, 0);
  EXPECT_EQ(defaults.cos_min_ratio, 1e-4);
  const SchedulerConfig set = read_scheduler("WarmupCosineLR", R"({
      "total_num_steps": 10, "warmup_min_ratio": 0.5, "cos_min_ratio": 0.25,
      "warmup_num_steps": 2, "warmup_type": "linear"})");
  EXPECT_EQ(set.warmup_min_ratio, 0.5);
  EXPECT_EQ(set.cos_min_ratio, 0.25);
  EXPECT_EQ(set.warmup_num_steps, 2);
}

TEST(SchedulerSection, RequiredParametersAreMissed) {
  const std::string message = mistakes_of(of_type("OneCycle", "{}"));
  EXPECT_TRUE(mentions(message, "scheduler.params.cycle_min_lr: missing"));
  EXPECT_TRUE(mentions(message, "scheduler.params.cycle_max_lr: missing"));
  for (const char* type : {"WarmupDecayLR", "WarmupCosineLR"}) {
    EXPECT_TRUE(has_one_mistake(
        of_type(type, "{}"), "scheduler.params.total_num_steps: missing"));
    EXPECT_TRUE(has_one_mistake(
        std::string("{\"scheduler\": {\"type\": \"") + type + "\"}}",
        "scheduler.params.total_num_steps: missing"));
  }
  EXPECT_TRUE(has_one_mistake(
      R"({"scheduler": {"params": {}}})", "scheduler.type: missing"));
}

TEST(SchedulerSection, OtherTypesAreRefused) {
  EXPECT_TRUE(has_one_mistake(
      of_type("CosineAnnealingLR", "{\"T_max\": 3}"),
      "got \"CosineAnnealingLR\", expected \"LRRangeTest\", "));
  EXPECT_TRUE(
      has_one_mistake(of_type("WarmUpLR", "{}"), "did you mean \"WarmupLR\"?"));
  EXPECT_TRUE(has_one_mistake(R"({"scheduler": {"type": null}})", "got null"));
  EXPECT_TRUE(has_one_mistake(R"({"scheduler": []})", "expected an object"));
}

TEST(SchedulerSection, ParametersOfAnotherTypeAreUnknown) {
  EXPECT_TRUE(has_one_mistake(
      of_type(
          "WarmupCosineLR", R"({"total_num_steps": 1, "warmup_max_lr": 1})"),
      "scheduler.params.warmup_max_lr: unknown key"));
  EXPECT_TRUE(has_one_mistake(
      of_type("WarmupLR", R"({"total_num_steps": 1})"),
      "scheduler.params.total_num_steps: unknown key"));
}

TEST(SchedulerSection, ValuesThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(has_one_mistake(
      of_type("WarmupLR", R"({"warmup_num_steps": 0})"), "at least 1"));
  EXPECT_TRUE(has_one_mistake(
      of_type("WarmupLR", R"({"warmup_num_steps": 1.5})"), "a whole number"));
  EXPECT_TRUE(has_one_mistake(
      of_type("WarmupLR", R"({"warmup_num_steps": "auto"})"), "\"auto\""));
  EXPECT_TRUE(has_one_mistake(
      of_type("WarmupLR", R"({"warmup_type": "cubic"})"),
      "got \"cubic\", expected \"log\" or \"linear\""));
  EXPECT_TRUE(has_one_mistake(
      of_type("WarmupLR", R"({"warmup_max_lr": [0.1, 0.2]})"), "a number"));
  EXPECT_TRUE(has_one_mistake(
      of_type("WarmupLR", R"({"last_batch_iteration": 7})"), "expected -1"));
  EXPECT_TRUE(has_one_mistake(
      of_type("LRRangeTest", R"({"lr_range_test_step_size": 0})"),
      "at least 1"));
  EXPECT_TRUE(has_one_mistake(
      of_type(
          "OneCycle",
          R"({"cycle_min_lr": 0, "cycle_max_lr": 1, "cycle_max_mom": 1})"),
      "from 0 to below 1"));
}

TEST(SchedulerSection, TheStartThatDeepSpeedWritesIsAccepted) {
  EXPECT_TRUE(
      has_no_mistake(of_type("WarmupLR", R"({"last_batch_iteration": -1})")));
}

} // namespace
} // namespace zero::config

// What is written is what is read.
#include <gtest/gtest.h>
#include <zero/config.h>
#include <zero/error.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "config/mistakes.h"

namespace zero::config {
namespace {

using Json = nlohmann::json;

void expect_round_trip(const Config& config) {
  const std::string text = config.to_json();
  EXPECT_EQ(Config::from_json(text).to_json(), text);
}

TEST(ToJson, DefaultsReadBack) {
  expect_round_trip({});
  const Json json = Json::parse(Config().to_json());
  EXPECT_EQ(json["optimizer"]["type"], "AdamW");
  EXPECT_EQ(json["libzero"]["gather_budget"], "25%");
  EXPECT_EQ(json["libzero"]["on_peer_lost"], "continue");
  EXPECT_FALSE(json.contains("scheduler"));
}

TEST(ToJson, EveryTopLevelFieldReadsBack) {
  Config config;
  config.train_batch_size = 32;
  config.train_micro_batch_size_per_gpu = 8;
  config.gradient_accumulation_steps = 2;
  config.gradient_clipping = 0.1;
  config.prescale_gradients = true;
  config.gradient_predivide_factor = 3;
  config.steps_per_print = 7;
  expect_round_trip(config);
  const Config read = Config::from_json(config.to_json());
  EXPECT_EQ(read.train_batch_size, 32);
  EXPECT_EQ(read.train_micro_batch_size_per_gpu, 8);
  EXPECT_EQ(read.gradient_accumulation_steps, 2);
  EXPECT_EQ(read.gradient_clipping, 0.1);
  EXPECT_TRUE(read.prescale_gradients);
  EXPECT_EQ(read.gradient_predivide_factor, 3);
  EXPECT_EQ(read.steps_per_print, 7);
}

TEST(ToJson, EveryOptimizerReadsBack) {
  Config config;
  config.optimizer.lr = 0.1 + 0.2; // has 17 digits
  config.optimizer.betas = {0.1, 0.2};
  config.optimizer.bias_correction = false;
  expect_round_trip(config);
  EXPECT_EQ(Config::from_json(config.to_json()).optimizer.lr, 0.1 + 0.2);
  config.optimizer.adam_w_mode = false;
  expect_round_trip(config);
  EXPECT_FALSE(Config::from_json(config.to_json()).optimizer.adam_w_mode);
  config.optimizer.type = OptimizerConfig::Type::sgd;
  config.optimizer.momentum = 0.9;
  config.optimizer.nesterov = true;
  expect_round_trip(config);
  const OptimizerConfig sgd = Config::from_json(config.to_json()).optimizer;
  EXPECT_EQ(sgd.type, OptimizerConfig::Type::sgd);
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_TRUE(sgd.nesterov);
}

TEST(ToJson, EveryScheduleReadsBack) {
  using Type = SchedulerConfig::Type;
  for (const Type type :
       {Type::lr_range_test,
        Type::one_cycle,
        Type::warmup_lr,
        Type::warmup_decay_lr,
        Type::warmup_cosine_lr}) {
    Config config;
    config.scheduler.type = type;
    config.scheduler.total_num_steps = 100;
    config.scheduler.warmup_type = SchedulerConfig::Warmup::linear;
    expect_round_trip(config);
    const SchedulerConfig read = Config::from_json(config.to_json()).scheduler;
    EXPECT_EQ(read.type, type);
    // Also for WarmupDecayLR, where a file without it would have 0.001.
    EXPECT_EQ(read.warmup_max_lr, std::nullopt);
    config.scheduler.warmup_max_lr = 0.5;
    config.scheduler.cycle_second_step_size = 0;
    expect_round_trip(config);
  }
}

TEST(ToJson, EveryStageReadsBack) {
  for (int stage = 0; stage <= 3; ++stage) {
    Config config;
    config.zero_optimization.stage = stage;
    config.zero_optimization.reduce_bucket_size = 1;
    config.zero_optimization.overlap_comm = false;
    config.zero_optimization.stage3_max_live_parameters =
        std::numeric_limits<int64_t>::max();
    expect_round_trip(config);
    const ZeroOptimizationConfig read =
        Config::from_json(config.to_json()).zero_optimization;
    EXPECT_EQ(read.stage, stage);
    EXPECT_EQ(
        read.stage3_max_live_parameters, std::numeric_limits<int64_t>::max());
  }
}

TEST(ToJson, TheSectionOfLibzeroReadsBack) {
  Config config;
  config.libzero.shared_memory = false;
  config.libzero.gather_budget.share = 1.0 / 3;
  config.libzero.on_peer_lost = LibzeroConfig::OnPeerLost::raise;
  config.libzero.accumulate = LibzeroConfig::Accumulate::full;
  config.libzero.clip_norm_type = std::numeric_limits<double>::infinity();
  config.libzero.parameter_groups = {
      {.match = "*.bias", .lr = {}, .weight_decay = 0},
      {.match = "\"\n\u00e9", .lr = 0.1, .weight_decay = {}}};
  expect_round_trip(config);
  const LibzeroConfig read = Config::from_json(config.to_json()).libzero;
  EXPECT_EQ(read.gather_budget.share, 1.0 / 3);
  EXPECT_EQ(read.clip_norm_type, config.libzero.clip_norm_type);
  EXPECT_EQ(read.parameter_groups[1].match, "\"\n\u00e9");
  config.libzero.gather_budget.bytes = 123;
  expect_round_trip(config);
  EXPECT_EQ(
      Config::from_json(config.to_json()).libzero.gather_budget.bytes, 123);
}

TEST(ToJson, WhatMakesNoSenseIsNotWritten) {
  Config config;
  config.optimizer.lr = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(config.to_json(), ConfigError);
}

TEST(ToJson, ANameThatIsNoTextDoesNoHarm) {
  Config config;
  config.libzero.parameter_groups = {{.match = "\xff", .lr = {}}};
  EXPECT_NO_THROW(Config::from_json(config.to_json()));
}

} // namespace
} // namespace zero::config

// "zero_optimization" is DeepSpeed's, but for what is documented.
#include <gtest/gtest.h>
#include <zero/config.h>

#include "config/mistakes.h"

namespace zero::config {
namespace {

std::string with_zero(const std::string& zero) {
  return "{\"zero_optimization\": " + zero + "}";
}

ZeroOptimizationConfig read_zero(const std::string& zero) {
  return Config::from_json(with_zero(zero)).zero_optimization;
}

TEST(ZeroOptimizationSection, EveryKeyIsRead) {
  const ZeroOptimizationConfig zero = read_zero(R"({
      "stage": 3, "reduce_bucket_size": 5e8, "overlap_comm": false,
      "stage3_prefetch_bucket_size": 1, "stage3_max_live_parameters": 3,
      "stage3_param_persistence_threshold": 2,
      "ignore_unused_parameters": false})");
  EXPECT_EQ(zero.stage, 3);
  EXPECT_EQ(zero.reduce_bucket_size, 500'000'000);
  EXPECT_FALSE(zero.overlap_comm);
  EXPECT_EQ(zero.stage3_prefetch_bucket_size, 1);
  EXPECT_EQ(zero.stage3_param_persistence_threshold, 2);
  EXPECT_EQ(zero.stage3_max_live_parameters, 3);
  EXPECT_FALSE(zero.ignore_unused_parameters);
}

TEST(ZeroOptimizationSection, TrueIsStageOne) {
  EXPECT_EQ(read_zero("true").stage, 1);
  EXPECT_EQ(read_zero("false").stage, 0);
  EXPECT_EQ(Config::from_json("{}").zero_optimization.stage, 0);
}

TEST(ZeroOptimizationSection, NamesWithoutTheirPrefixAreTakenToo) {
  const ZeroOptimizationConfig zero = read_zero(R"({
      "prefetch_bucket_size": 1, "param_persistence_threshold": 2,
      "max_live_parameters": 3})");
  EXPECT_EQ(zero.stage3_prefetch_bucket_size, 1);
  EXPECT_EQ(zero.stage3_param_persistence_threshold, 2);
  EXPECT_EQ(zero.stage3_max_live_parameters, 3);
  EXPECT_TRUE(has_one_mistake(
      with_zero(
          R"({"prefetch_bucket_size": 1, "stage3_prefetch_bucket_size": 1})"),
      "given as stage3_prefetch_bucket_size too"));
  EXPECT_TRUE(has_one_mistake(
      with_zero("{\n\"prefetch_bucket_size\": -1}"), "zero.json:2: zero_opt"));
}

TEST(ZeroOptimizationSection, AutoAndNullLeaveTheDefaults) {
  const ZeroOptimizationConfig zero = read_zero(R"({
      "stage": 3, "reduce_bucket_size": "auto", "overlap_comm": null,
      "stage3_prefetch_bucket_size": "auto",
      "stage3_param_persistence_threshold": "auto",
      "allgather_bucket_size": "auto", "sub_group_size": "auto",
      "contiguous_gradients": "auto"})");
  const ZeroOptimizationConfig defaults;
  EXPECT_EQ(zero.reduce_bucket_size, defaults.reduce_bucket_size);
  EXPECT_EQ(zero.overlap_comm, defaults.overlap_comm);
  EXPECT_EQ(
      zero.stage3_prefetch_bucket_size, defaults.stage3_prefetch_bucket_size);
  EXPECT_EQ(zero.stage3_param_persistence_threshold, 0);
}

TEST(ZeroOptimizationSection, TheStageIsNotGuessed) {
  EXPECT_TRUE(has_one_mistake(with_zero(R"({"stage": "auto"})"), "\"auto\""));
  EXPECT_TRUE(has_one_mistake(with_zero(R"({"stage": null})"), "got null"));
  EXPECT_TRUE(has_one_mistake(with_zero(R"({"stage": 4})"), "from 0 to 3"));
  EXPECT_TRUE(has_one_mistake(with_zero(R"({"stage": -1})"), "from 0 to 3"));
  EXPECT_TRUE(
      has_one_mistake(with_zero(R"({"stage": 1.5})"), "a whole number"));
  EXPECT_TRUE(
      has_one_mistake(with_zero(R"({"stage": true})"), "a whole number"));
  EXPECT_TRUE(
      has_one_mistake(with_zero(R"({"stage": "2"})"), "remove the quotes"));
  EXPECT_TRUE(has_one_mistake(with_zero(R"({"stage": 1e15})"), "of 32 bits"));
  EXPECT_TRUE(has_one_mistake(with_zero(R"({"stage": 1e30})"), "of 64 bits"));
}

TEST(ZeroOptimizationSection, OtherFormsAreRefused) {
  EXPECT_TRUE(has_one_mistake(with_zero("2"), "got 2, expected an object"));
  EXPECT_TRUE(has_one_mistake(with_zero("[]"), "expected an object"));
  EXPECT_TRUE(has_one_mistake(with_zero("\"auto\""), "expected an object"));
  EXPECT_TRUE(has_one_mistake(with_zero("null"), "expected an object"));
}

TEST(ZeroOptimizationSection, SizesThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(
      has_one_mistake(with_zero(R"({"reduce_bucket_size": 0})"), "at least 1"));
  EXPECT_TRUE(has_one_mistake(
      with_zero(R"({"reduce_bucket_size": 99999999999999999999})"), "64 bits"));
  EXPECT_TRUE(has_one_mistake(
      with_zero(R"({"stage3_max_live_parameters": -1})"), "at least 0"));
  EXPECT_TRUE(has_one_mistake(
      with_zero(R"({"allgather_bucket_size": -1})"), "at least 0"));
}

TEST(ZeroOptimizationSection, OffloadIsRefusedUnlessItIsOff) {
  for (const char* key : {"offload_param", "offload_optimizer"}) {
    const std::string name = std::string("{\"") + key + "\": ";
    EXPECT_TRUE(has_no_mistake(with_zero(name + "null}")));
    EXPECT_TRUE(has_no_mistake(with_zero(name + "{}}")));
    EXPECT_TRUE(has_no_mistake(with_zero(name + R"({"device": "none"}})")));
    EXPECT_TRUE(has_no_mistake(
        with_zero(name + R"({"device": "none", "pin_memory": true}})")));
    EXPECT_TRUE(has_one_mistake(
        with_zero(name + R"({"device": "cpu"}})"),
        std::string("DeepSpeed's ") + key + " is not supported yet"));
    EXPECT_TRUE(
        has_one_mistake(with_zero(name + R"({"device": 3}})"), "a text"));
    EXPECT_TRUE(has_one_mistake(
        with_zero(name + R"({"pin_memroy": true}})"),
        "did you mean pin_memory?"));
  }
  EXPECT_TRUE(has_no_mistake(with_zero(R"({"cpu_offload": false})")));
  EXPECT_TRUE(
      has_one_mistake(with_zero(R"({"cpu_offload": true})"), "expected fal"));
}

TEST(ZeroOptimizationSection, ACapOnPersistenceIsRefusedWhereItWouldMatter) {
  EXPECT_TRUE(has_no_mistake(
      with_zero(R"({"stage3_model_persistence_threshold": 5})")));
  EXPECT_TRUE(has_no_mistake(
      with_zero(R"({"stage3_model_persistence_threshold": 9223372036854775807,
               "stage3_param_persistence_threshold": 100})")));
  EXPECT_TRUE(has_one_mistake(
      with_zero(R"({"stage3_model_persistence_threshold": 5,
               "stage3_param_persistence_threshold": 100})"),
      "a cap on persistent parameters"));
}

TEST(ZeroOptimizationSection, WhatDeepSpeedRemovedIsRefusedByName) {
  for (const char* key :
       {"mics_shard_size",
        "mics_hierarchical_params_gather",
        "zeropp_loco_param"}) {
    EXPECT_TRUE(has_one_mistake(
        with_zero(std::string("{\"") + key + "\": null}"),
        std::string(key) + ": removed from DeepSpeed"));
  }
}

} // namespace
} // namespace zero::config

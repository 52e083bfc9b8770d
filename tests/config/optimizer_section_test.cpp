// Optimizers are DeepSpeed's.
#include <gtest/gtest.h>
#include <zero/config.h>

#include "config/mistakes.h"

namespace zero::config {
namespace {

using OptimizerType = OptimizerConfig::Type;

OptimizerConfig read_optimizer(const std::string& optimizer) {
  return Config::from_json("{\"optimizer\": " + optimizer + "}").optimizer;
}

testing::AssertionResult is_refused(
    const std::string& optimizer,
    const std::string& part) {
  return has_one_mistake("{\"optimizer\": " + optimizer + "}", part);
}

TEST(OptimizerSection, DefaultsAreDeepSpeeds) {
  const OptimizerConfig adam = read_optimizer(R"({"type": "Adam"})");
  EXPECT_EQ(adam.type, OptimizerType::adam);
  EXPECT_EQ(adam.lr, 1e-3);
  EXPECT_EQ(adam.weight_decay, 0);
  EXPECT_EQ(adam.betas[0], 0.9);
  EXPECT_EQ(adam.betas[1], 0.999);
  EXPECT_EQ(adam.eps, 1e-8);
  EXPECT_TRUE(adam.bias_correction);
  EXPECT_TRUE(adam.adam_w_mode);
}

TEST(OptimizerSection, EveryParameterIsRead) {
  const OptimizerConfig adam = read_optimizer(R"({"type": "Adam", "params": {
      "lr": 0.5, "betas": [0, 0.25], "eps": 1e-6, "weight_decay": 0.125,
      "bias_correction": false, "adam_w_mode": false}})");
  EXPECT_EQ(adam.lr, 0.5);
  EXPECT_EQ(adam.betas[0], 0);
  EXPECT_EQ(adam.betas[1], 0.25);
  EXPECT_EQ(adam.eps, 1e-6);
  EXPECT_EQ(adam.weight_decay, 0.125);
  EXPECT_FALSE(adam.bias_correction);
  EXPECT_FALSE(adam.adam_w_mode);
  const OptimizerConfig sgd = read_optimizer(R"({"type": "SGD", "params": {
      "lr": 1, "momentum": 0.9, "dampening": 0, "nesterov": true,
      "weight_decay": 1}})");
  EXPECT_EQ(sgd.type, OptimizerType::sgd);
  EXPECT_EQ(sgd.lr, 1);
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_EQ(sgd.dampening, 0);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(sgd.weight_decay, 1);
}

TEST(OptimizerSection, CaseOfTheNameDoesNotCount) {
  EXPECT_EQ(read_optimizer(R"({"type": "adam"})").type, OptimizerType::adam);
  EXPECT_EQ(read_optimizer(R"({"type": "ADAMW"})").type, OptimizerType::adam);
  EXPECT_EQ(read_optimizer(R"({"type": "sgd"})").type, OptimizerType::sgd);
}

TEST(OptimizerSection, AdamWIsDecoupledWhateverTheModeSays) {
  EXPECT_TRUE(
      read_optimizer(R"({"type": "AdamW", "params": {"adam_w_mode": false}})")
          .adam_w_mode);
}

TEST(OptimizerSection, TorchsAdamWBringsItsOwnWeightDecay) {
  const auto decay = [](const char* type, const char* params) {
    return read_optimizer(
               std::string("{\"type\": \"") + type +
               "\", \"params\": " + params + "}")
        .weight_decay;
  };
  EXPECT_EQ(decay("AdamW", R"({"torch_adam": true})"), 0.01);
  EXPECT_EQ(decay("Adam", R"({"torch_adam": true})"), 0.01);
  EXPECT_EQ(decay("AdamW", R"({"torch_adam": false})"), 0);
  EXPECT_EQ(decay("AdamW", R"({"torch_adam": true, "weight_decay": 0})"), 0);
  EXPECT_EQ(decay("Adam", R"({"torch_adam": true, "adam_w_mode": false})"), 0);
}

TEST(OptimizerSection, OthersAreRefusedByName) {
  for (const char* name : {"Lamb", "Lion", "Muon", "OneBitAdam", "auto", ""}) {
    EXPECT_TRUE(is_refused(
        std::string("{\"type\": \"") + name + "\", \"params\": {\"lr\": 1}}",
        std::string("got \"") + name + "\", expected \"Adam\", \"AdamW\" or "));
  }
  EXPECT_TRUE(is_refused(R"({"type": 3})", "got 3, expected \"Adam\""));
}

TEST(OptimizerSection, TheTypeIsRequired) {
  EXPECT_TRUE(is_refused("{}", "optimizer.type: missing"));
  EXPECT_TRUE(is_refused(R"({"params": {"lr": 1}})", "type: missing"));
}

TEST(OptimizerSection, ClippingBelongsToTheTopLevel) {
  EXPECT_TRUE(is_refused(
      R"({"type": "SGD", "params": {"max_grad_norm": 1.0}})",
      "set gradient_clipping"));
  EXPECT_TRUE(is_refused(
      R"({"type": "Adam", "params": {"max_grad_norm": 0}})",
      "set gradient_clipping"));
}

TEST(OptimizerSection, WhatChangesNothingIsAccepted) {
  EXPECT_EQ(
      read_optimizer(R"({"type": "Adam", "legacy_fusion": true, "params": {
          "torch_adam": true, "fused": true, "foreach": null, "amsgrad": false,
          "set_grad_none": false, "maximize": false, "weight_decay": 0.5}})")
          .weight_decay,
      0.5);
}

TEST(OptimizerSection, WhatWouldChangeResultsIsRefused) {
  const auto adam = [](const std::string& params) {
    return "{\"type\": \"Adam\", \"params\": {" + params + "}}";
  };
  EXPECT_TRUE(
      is_refused(adam("\"amsgrad\": true"), "amsgrad is not supported"));
  EXPECT_TRUE(is_refused(adam("\"maximize\": true"), "maximize is not"));
  EXPECT_TRUE(
      is_refused(adam("\"fp32_optimizer_states\": false"), "expected true"));
  EXPECT_TRUE(
      is_refused(adam("\"decoupled_weight_decay\": true"), "set adam_w_mode"));
}

TEST(OptimizerSection, ParametersOfAnotherTypeAreUnknown) {
  EXPECT_TRUE(is_refused(
      R"({"type": "SGD", "params": {"betas": [0.9, 0.99]}})",
      "optimizer.params.betas: unknown key"));
  EXPECT_TRUE(is_refused(
      R"({"type": "Adam", "params": {"nesterov": true}})",
      "optimizer.params.nesterov: unknown key"));
}

TEST(OptimizerSection, ValuesOfTheWrongTypeAreRefused) {
  const auto adam = [](const std::string& params) {
    return "{\"type\": \"Adam\", \"params\": " + params + "}";
  };
  EXPECT_TRUE(is_refused(adam("3"), "params: got 3, expected an object"));
  EXPECT_TRUE(is_refused(adam("null"), "got null, expected an object"));
  EXPECT_TRUE(
      is_refused(adam("{\"lr\": null}"), "got null, expected a number"));
  EXPECT_TRUE(is_refused(adam("{\"lr\": [1]}"), "a list of 1 value"));
  EXPECT_TRUE(is_refused(adam("{\"lr\": \"1e-3\"}"), "remove the quotes"));
  EXPECT_TRUE(is_refused(adam("{\"lr\": \"auto\"}"), "write the value"));
  EXPECT_TRUE(is_refused(adam("{\"betas\": 0.9}"), "a list of two numbers"));
  EXPECT_TRUE(is_refused(adam("{\"betas\": [1]}"), "a list of two numbers"));
  EXPECT_TRUE(is_refused(adam("{\"betas\": [0, \"a\"]}"), "two numbers"));
  EXPECT_TRUE(is_refused(adam("{\"bias_correction\": 1}"), "true or false"));
  EXPECT_TRUE(is_refused(adam("{\"torch_adam\": 1}"), "true or false"));
  EXPECT_TRUE(is_refused("[]", "optimizer: got a list"));
}

TEST(OptimizerSection, ValuesOutOfRangeAreRefused) {
  const auto adam = [](const std::string& params) {
    return "{\"type\": \"Adam\", \"params\": {" + params + "}}";
  };
  EXPECT_TRUE(is_refused(adam("\"lr\": -1e-3"), "got -0.001, expected a num"));
  EXPECT_TRUE(is_refused(adam("\"eps\": -1"), "at least 0"));
  EXPECT_TRUE(is_refused(adam("\"weight_decay\": -1"), "at least 0"));
  EXPECT_TRUE(is_refused(adam("\"betas\": [0.9, 1]"), "got [0.9, 1], expec"));
  EXPECT_TRUE(is_refused(
      R"({"type": "SGD", "params": {"momentum": -0.5}})", "at least 0"));
  EXPECT_TRUE(is_refused(
      R"({"type": "SGD", "params": {"nesterov": true}})",
      "expected momentum above 0"));
  EXPECT_TRUE(is_refused(
      R"({"type": "SGD",
          "params": {"nesterov": true, "momentum": 1, "dampening": 1}})",
      "no dampening"));
}

} // namespace
} // namespace zero::config

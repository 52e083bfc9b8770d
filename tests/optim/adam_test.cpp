// Adam and AdamW against torch's own.
#include "optim/adam.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <zero/error.h>

#include <cmath>
#include <memory>
#include <string>

#include "optim/tensors.h"

namespace zero::optim {
namespace {

using at::Tensor;

struct Case {
  std::string name;
  OptimizerConfig config;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool decoupled : {true, false}) {
    for (const double weight_decay : {0.0, 0.1}) {
      OptimizerConfig config;
      config.lr = 0.01;
      config.weight_decay = weight_decay;
      config.adam_w_mode = decoupled;
      const std::string name = std::string(decoupled ? "AdamW" : "Adam") +
          " with decay " + std::to_string(weight_decay);
      cases.push_back({name, config});
      config.betas = {0.7, 0.95};
      config.eps = 1e-3;
      cases.push_back({name + " and other betas", config});
    }
  }
  return cases;
}

// torch's optimizer with the same settings.
std::unique_ptr<torch::optim::Optimizer> torch_optimizer(
    const OptimizerConfig& config,
    const Tensor& parameter) {
  const std::tuple<double, double> betas{config.betas[0], config.betas[1]};
  const std::vector<Tensor> parameters{parameter};
  if (config.adam_w_mode) {
    return std::make_unique<torch::optim::AdamW>(
        parameters,
        torch::optim::AdamWOptions(config.lr)
            .betas(betas)
            .eps(config.eps)
            .weight_decay(config.weight_decay));
  }
  return std::make_unique<torch::optim::Adam>(
      parameters,
      torch::optim::AdamOptions(config.lr)
          .betas(betas)
          .eps(config.eps)
          .weight_decay(config.weight_decay));
}

Slice make_adam_slice(const OptimizerConfig& config, const Tensor& parameter) {
  const auto dtype = state_type(parameter.scalar_type());
  const int64_t numel = parameter.numel();
  Slice slice;
  slice.parameter = parameter;
  slice.states = {zeros_at(0, numel, dtype), zeros_at(0, numel, dtype)};
  slice.lr = config.lr;
  slice.weight_decay = config.weight_decay;
  return slice;
}

std::vector<Tensor> torch_moments(
    const OptimizerConfig& config,
    const torch::optim::Optimizer& optimizer) {
  auto& state = *optimizer.state().begin()->second;
  if (config.adam_w_mode) {
    auto& moments = static_cast<torch::optim::AdamWParamState&>(state);
    return {moments.exp_avg(), moments.exp_avg_sq()};
  }
  auto& moments = static_cast<torch::optim::AdamParamState&>(state);
  return {moments.exp_avg(), moments.exp_avg_sq()};
}

// Twelve updates of ours and torch's from the same start.
void expect_adam_parity(
    const OptimizerConfig& config,
    int64_t offset,
    int64_t numel,
    at::ScalarType dtype,
    double tolerance) {
  const auto optimizer = make_adam(config);
  Slice slice = make_adam_slice(config, random_at(offset, numel, dtype));
  const Tensor expected = slice.parameter.clone().set_requires_grad(true);
  const auto reference = torch_optimizer(config, expected);
  for (slice.step = 1; slice.step <= 12; ++slice.step) {
    slice.gradient = random_at(offset + 1, numel, dtype);
    expected.mutable_grad() = slice.gradient.clone();
    optimizer->update(slice);
    reference->step();
  }
  EXPECT_TRUE(
      at::allclose(slice.parameter, expected.detach(), tolerance, tolerance))
      << "off by "
      << (slice.parameter - expected.detach()).abs().max().item<double>();
  // L2 is left out: there, torch's square root gets into the moments.
  if (torch_fuses() && (config.adam_w_mode || config.weight_decay == 0)) {
    const auto moments = torch_moments(config, *reference);
    EXPECT_TRUE(at::equal(slice.states[0], moments[0]));
    EXPECT_TRUE(at::equal(slice.states[1], moments[1]));
  }
}

TEST(Adam, IsThatOfTorch) {
  at::manual_seed(1);
  for (const auto& [name, config] : all_cases()) {
    for (const int64_t numel : {0, 1, 3, 7, 17, 1000}) {
      for (const int64_t offset : {0, 1, 3}) {
        SCOPED_TRACE(
            name + ", " + std::to_string(numel) + " from " +
            std::to_string(offset));
        expect_adam_parity(config, offset, numel, at::kFloat, 1e-6);
        expect_adam_parity(config, offset, numel, at::kDouble, 1e-12);
      }
    }
  }
}

TEST(Adam, IsThatOfTorchForAMillionElements) {
  at::manual_seed(2);
  for (const bool decoupled : {true, false}) {
    OptimizerConfig config;
    config.adam_w_mode = decoupled;
    config.weight_decay = 0.1;
    SCOPED_TRACE(decoupled ? "AdamW" : "Adam");
    expect_adam_parity(config, 1, 1000003, at::kFloat, 1e-6);
    expect_adam_parity(config, 3, 1000003, at::kDouble, 1e-12);
  }
}

// The formulas, in double.
struct Reference {
  OptimizerConfig config;
  Tensor parameter, first, second;

  Reference(const OptimizerConfig& settings, const Tensor& start)
      : config(settings),
        parameter(start.to(at::kDouble, false, true)), // a copy
        first(at::zeros_like(parameter)),
        second(at::zeros_like(parameter)) {}

  void update(const Tensor& gradient, int64_t step, double beta1) {
    const double beta2 = config.betas[1];
    const bool corrects = config.bias_correction;
    const auto n = static_cast<double>(step);
    const double correction1 = corrects ? 1 - std::pow(beta1, n) : 1;
    const double correction2 = corrects ? 1 - std::pow(beta2, n) : 1;
    const double decay = config.lr * config.weight_decay;
    Tensor g = gradient.to(at::kDouble);
    if (config.adam_w_mode) {
      parameter = parameter * (1 - decay);
    } else {
      g = g + parameter * config.weight_decay;
    }
    first = first * beta1 + g * (1 - beta1);
    second = second * beta2 + g * g * (1 - beta2);
    parameter = parameter -
        config.lr * (first / correction1) /
            ((second / correction2).sqrt() + config.eps);
  }
};

TEST(Adam, WithoutBiasCorrectionMomentsAreTakenAsTheyAre) {
  at::manual_seed(3);
  for (auto [name, config] : all_cases()) {
    config.bias_correction = false;
    const auto optimizer = make_adam(config);
    Slice slice = make_adam_slice(config, random_at(0, 1001, at::kDouble));
    Reference reference(config, slice.parameter);
    for (slice.step = 1; slice.step <= 12; ++slice.step) {
      slice.gradient = random_at(0, 1001, at::kDouble);
      optimizer->update(slice);
      reference.update(slice.gradient, slice.step, config.betas[0]);
    }
    EXPECT_TRUE(
        at::allclose(slice.parameter, reference.parameter, 1e-12, 1e-12))
        << name;
  }
}

TEST(Adam, AMomentumOfTheSliceReplacesBeta1) {
  at::manual_seed(4);
  const OptimizerConfig config;
  const auto optimizer = make_adam(config);
  Slice slice = make_adam_slice(config, random_at(0, 1001, at::kDouble));
  Reference reference(config, slice.parameter);
  for (slice.step = 1; slice.step <= 12; ++slice.step) {
    slice.gradient = random_at(0, 1001, at::kDouble);
    slice.momentum = slice.step == 5 ? 0 : 0.95 - 0.01 * slice.step;
    optimizer->update(slice);
    reference.update(slice.gradient, slice.step, slice.momentum);
  }
  EXPECT_TRUE(at::allclose(slice.parameter, reference.parameter, 1e-12, 1e-12));
}

TEST(Adam, HalvesAreUpdatedInFloatAndRoundedOnce) {
  at::manual_seed(5);
  for (const auto& [name, config] : all_cases()) {
    for (const auto dtype : {at::kHalf, at::kBFloat16}) {
      const auto optimizer = make_adam(config);
      Slice half = make_adam_slice(config, random_at(1, 1003, dtype));
      Slice wide = make_adam_slice(config, half.parameter.to(at::kFloat));
      for (int64_t step = 1; step <= 12; ++step) {
        half.step = wide.step = step;
        half.gradient = wide.gradient = random_at(0, 1003, at::kFloat);
        optimizer->update(half);
        optimizer->update(wide);
        EXPECT_TRUE(at::equal(half.parameter, wide.parameter.to(dtype)))
            << name << " in " << dtype << " at step " << step;
        // The next update begins with what was rounded.
        wide.parameter.copy_(half.parameter);
      }
    }
  }
}

TEST(Adam, HasTheSameBitsForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const OptimizerConfig config;
  std::vector<Slice> results;
  for (const int num_threads : {1, 2, 3, 8}) {
    at::set_num_threads(num_threads);
    at::manual_seed(6);
    Slice slice = make_adam_slice(config, random_at(1, 1000003, at::kFloat));
    slice.gradient = random_at(0, 1000003, at::kFloat);
    make_adam(config)->update(slice);
    results.push_back(slice);
  }
  at::set_num_threads(before);
  for (const Slice& result : results) {
    EXPECT_TRUE(same_bits(result.parameter, results[0].parameter));
    EXPECT_TRUE(same_bits(result.states[0], results[0].states[0]));
    EXPECT_TRUE(same_bits(result.states[1], results[0].states[1]));
  }
}

TEST(Adam, HasTheSameBitsWhereverASliceBegins) {
  at::manual_seed(7);
  OptimizerConfig config;
  config.weight_decay = 0.1;
  const auto optimizer = make_adam(config);
  Slice whole = make_adam_slice(config, random_at(0, 1000, at::kFloat));
  whole.gradient = random_at(0, 1000, at::kFloat);
  Slice parts = whole;
  parts.parameter = copy_of(whole.parameter);
  parts.states = {copy_of(whole.states[0]), copy_of(whole.states[1])};
  optimizer->update(whole);
  int64_t begin = 0;
  for (const int64_t end : {0, 1, 14, 333, 334, 999, 1000}) {
    Slice part = parts;
    part.parameter = parts.parameter.slice(0, begin, end);
    part.gradient = parts.gradient.slice(0, begin, end);
    part.states = {
        parts.states[0].slice(0, begin, end),
        parts.states[1].slice(0, begin, end)};
    optimizer->update(part);
    begin = end;
  }
  EXPECT_TRUE(same_bits(parts.parameter, whole.parameter));
  EXPECT_TRUE(same_bits(parts.states[1], whole.states[1]));
}

TEST(Adam, NanAndInfinityAreNotHidden) {
  const OptimizerConfig config;
  Slice slice = make_adam_slice(config, at::zeros({100}));
  slice.gradient = at::ones({100});
  slice.gradient[7] = std::numeric_limits<double>::quiet_NaN();
  slice.gradient[99] = std::numeric_limits<double>::infinity();
  make_adam(config)->update(slice);
  EXPECT_TRUE(std::isnan(slice.parameter[7].item<double>()));
  EXPECT_TRUE(std::isnan(slice.parameter[99].item<double>()));
  EXPECT_EQ(slice.parameter.isfinite().sum().item<int64_t>(), 98);
}

} // namespace
} // namespace zero::optim

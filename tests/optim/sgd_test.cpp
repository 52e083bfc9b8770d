// SGD against torch's own.
#include "optim/sgd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <string>

#include "optim/tensors.h"

namespace zero::optim {
namespace {

using at::Tensor;

std::vector<OptimizerConfig> all_configs() {
  std::vector<OptimizerConfig> configs;
  for (const double weight_decay : {0.0, 0.1}) {
    OptimizerConfig config;
    config.type = OptimizerConfig::Type::sgd;
    config.lr = 0.1;
    config.weight_decay = weight_decay;
    configs.push_back(config);
    config.momentum = 0.9;
    configs.push_back(config);
    config.nesterov = true;
    configs.push_back(config);
    config.nesterov = false;
    config.dampening = 0.3;
    configs.push_back(config);
  }
  return configs;
}

std::string name_of(const OptimizerConfig& config) {
  return c10::str(
      "momentum ",
      config.momentum,
      ", dampening ",
      config.dampening,
      ", decay ",
      config.weight_decay,
      config.nesterov ? ", Nesterov" : "");
}

Slice make_sgd_slice(const OptimizerConfig& config, const Tensor& parameter) {
  Slice slice;
  slice.parameter = parameter;
  if (config.momentum != 0) {
    slice.states = {
        zeros_at(0, parameter.numel(), state_type(parameter.scalar_type()))};
  }
  slice.lr = config.lr;
  slice.weight_decay = config.weight_decay;
  return slice;
}

void expect_sgd_parity(
    const OptimizerConfig& config,
    int64_t offset,
    int64_t numel,
    at::ScalarType dtype,
    double tolerance) {
  SCOPED_TRACE(
      c10::str(name_of(config), ", ", numel, " from ", offset, " of ", dtype));
  const auto optimizer = make_sgd(config);
  Slice slice = make_sgd_slice(config, random_at(offset, numel, dtype));
  const Tensor expected = slice.parameter.clone().set_requires_grad(true);
  torch::optim::SGD reference(
      std::vector<Tensor>{expected},
      torch::optim::SGDOptions(config.lr)
          .momentum(config.momentum)
          .dampening(config.dampening)
          .weight_decay(config.weight_decay)
          .nesterov(config.nesterov));
  for (slice.step = 1; slice.step <= 12; ++slice.step) {
    slice.gradient = random_at(offset + 1, numel, dtype);
    expected.mutable_grad() = slice.gradient.clone();
    optimizer->update(slice);
    reference.step();
  }
  EXPECT_TRUE(
      at::allclose(slice.parameter, expected.detach(), tolerance, tolerance))
      << "off by "
      << (slice.parameter - expected.detach()).abs().max().item<double>();
  if (torch_fuses()) {
    EXPECT_TRUE(at::equal(slice.parameter, expected.detach()));
  }
}

TEST(Sgd, IsThatOfTorchToTheLastBit) {
  at::manual_seed(1);
  for (const auto& config : all_configs()) {
    for (const int64_t numel : {0, 1, 3, 7, 17, 1000}) {
      for (const int64_t offset : {0, 1, 3}) {
        expect_sgd_parity(config, offset, numel, at::kFloat, 1e-6);
        expect_sgd_parity(config, offset, numel, at::kDouble, 1e-12);
      }
    }
  }
}

TEST(Sgd, IsThatOfTorchForAMillionElements) {
  at::manual_seed(5);
  OptimizerConfig config;
  config.momentum = 0.9;
  config.nesterov = true;
  config.weight_decay = 0.1;
  expect_sgd_parity(config, 1, 1000003, at::kFloat, 1e-6);
  expect_sgd_parity(config, 3, 1000003, at::kDouble, 1e-12);
}

TEST(Sgd, HasAStateOnlyForMomentum) {
  OptimizerConfig config;
  EXPECT_EQ(make_sgd(config)->num_states(), 0);
  config.momentum = 0.9;
  EXPECT_EQ(make_sgd(config)->num_states(), 1);
}

TEST(Sgd, TheFirstGradientIsNotDampened) {
  OptimizerConfig config;
  config.momentum = 0.9;
  config.dampening = 0.5;
  config.lr = 1;
  Slice slice = make_sgd_slice(config, at::zeros({20}));
  // Left over from something else: at step 1 it has no say.
  slice.states[0].fill_(100);
  slice.gradient = at::ones({20});
  make_sgd(config)->update(slice);
  EXPECT_TRUE(at::equal(slice.parameter, at::full({20}, -1.0)));
  EXPECT_TRUE(at::equal(slice.states[0], at::ones({20})));
}

TEST(Sgd, AMomentumOfTheSliceReplacesItsOwn) {
  at::manual_seed(2);
  OptimizerConfig config;
  config.momentum = 0.9;
  OptimizerConfig other = config;
  other.momentum = 0.7;
  Slice slice = make_sgd_slice(config, random_at(0, 99, at::kFloat));
  Slice expected = make_sgd_slice(other, slice.parameter.clone());
  for (int64_t step = 1; step <= 3; ++step) {
    slice.step = expected.step = step;
    slice.gradient = expected.gradient = random_at(0, 99, at::kFloat);
    slice.momentum = 0.7;
    make_sgd(config)->update(slice);
    make_sgd(other)->update(expected);
  }
  EXPECT_TRUE(at::equal(slice.parameter, expected.parameter));
}

TEST(Sgd, HalvesAreUpdatedInFloatAndRoundedOnce) {
  at::manual_seed(3);
  for (const auto& config : all_configs()) {
    for (const auto dtype : {at::kHalf, at::kBFloat16}) {
      const auto optimizer = make_sgd(config);
      Slice half = make_sgd_slice(config, random_at(1, 1003, dtype));
      Slice wide = make_sgd_slice(config, half.parameter.to(at::kFloat));
      for (int64_t step = 1; step <= 12; ++step) {
        half.step = wide.step = step;
        half.gradient = wide.gradient = random_at(0, 1003, at::kFloat);
        optimizer->update(half);
        optimizer->update(wide);
        EXPECT_TRUE(at::equal(half.parameter, wide.parameter.to(dtype)))
            << name_of(config) << " in " << dtype << " at step " << step;
        wide.parameter.copy_(half.parameter);
      }
    }
  }
}

TEST(Sgd, HasTheSameBitsForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  OptimizerConfig config;
  config.momentum = 0.9;
  std::vector<Slice> results;
  for (const int num_threads : {1, 2, 3, 8}) {
    at::set_num_threads(num_threads);
    at::manual_seed(4);
    Slice slice = make_sgd_slice(config, random_at(1, 1000003, at::kFloat));
    slice.gradient = random_at(0, 1000003, at::kFloat);
    slice.step = 2;
    make_sgd(config)->update(slice);
    results.push_back(slice);
  }
  at::set_num_threads(before);
  for (const Slice& result : results) {
    EXPECT_TRUE(same_bits(result.parameter, results[0].parameter));
    EXPECT_TRUE(same_bits(result.states[0], results[0].states[0]));
  }
}

} // namespace
} // namespace zero::optim

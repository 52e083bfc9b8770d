// Defines the oracle of training: plain libtorch that runs the micro-batches of
// all ranks one after another, averages their gradients, clips and updates.
#pragma once

#include <gtest/gtest.h>
#include <zero/config.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/models.h"

namespace zero::test {

// The batch of a rank in a micro-step. Far apart, so that none overlap.
inline uint64_t batch_seed(int step, int micro_step, int rank) {
  return 1'000'000ULL * static_cast<uint64_t>(step + 1) +
      10'000ULL * static_cast<uint64_t>(micro_step) +
      10ULL * static_cast<uint64_t>(rank);
}

struct Curve {
  std::vector<double> losses; // mean over ranks and micro-steps, by step
  std::vector<double> norms;
  std::vector<at::Tensor> parameters; // at the end
};

inline std::unique_ptr<torch::optim::Optimizer> make_torch_optimizer(
    const std::vector<at::Tensor>& parameters,
    const OptimizerConfig& config) {
  if (config.type == OptimizerConfig::Type::sgd) {
    return std::make_unique<torch::optim::SGD>(
        parameters,
        torch::optim::SGDOptions(config.lr)
            .momentum(config.momentum)
            .nesterov(config.nesterov)
            .weight_decay(config.weight_decay));
  }
  return std::make_unique<torch::optim::AdamW>(
      parameters,
      torch::optim::AdamWOptions(config.lr)
          .betas(std::make_tuple(config.betas[0], config.betas[1]))
          .eps(config.eps)
          .weight_decay(config.weight_decay));
}

inline Curve train_plain(
    const Model& model,
    const Config& config,
    int num_ranks,
    int num_steps) {
  std::vector<at::Tensor> trained;
  for (const auto& parameter : model.module->parameters()) {
    bool known = !parameter.requires_grad();
    for (const auto& other : trained) {
      known = known || other.is_same(parameter);
    }
    if (!known) {
      trained.push_back(parameter);
    }
  }
  const auto optimizer = make_torch_optimizer(trained, config.optimizer);
  const auto accumulation =
      static_cast<int>(config.batch_sizes(num_ranks).accumulation);
  Curve curve;
  for (int step = 0; step < num_steps; ++step) {
    optimizer->zero_grad();
    double loss_sum = 0;
    for (int micro = 0; micro < accumulation; ++micro) {
      for (int rank = 0; rank < num_ranks; ++rank) {
        const auto loss = model.loss(batch_seed(step, micro, rank));
        (loss / accumulation).backward();
        loss_sum += loss.item<double>();
      }
    }
    curve.losses.push_back(loss_sum / num_ranks / accumulation);
    double total = 0;
    for (const auto& parameter : trained) {
      if (parameter.grad().defined() && parameter.numel() > 0) {
        parameter.mutable_grad().div_(num_ranks);
        total += parameter.grad().to(at::kDouble).square().sum().item<double>();
      }
    }
    curve.norms.push_back(std::sqrt(total));
    if (config.gradient_clipping > 0) {
      const double factor =
          config.gradient_clipping / (std::sqrt(total) + 1e-6);
      for (const auto& parameter : trained) {
        if (factor < 1 && parameter.grad().defined()) {
          parameter.mutable_grad().mul_(factor);
        }
      }
    }
    optimizer->step();
  }
  for (const auto& parameter : model.module->parameters()) {
    curve.parameters.push_back(parameter.detach().clone());
  }
  return curve;
}

// Requires: the module's parameters are here.
inline void expect_parameters_of(
    const Curve& expected,
    const torch::nn::Module& module,
    double tolerance) {
  const auto parameters = module.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(torch::allclose(
        parameters[i], expected.parameters[i], tolerance, tolerance))
        << "parameter " << i;
  }
}

inline void expect_losses_of(
    const Curve& expected,
    const std::vector<double>& losses,
    double tolerance) {
  ASSERT_EQ(losses.size(), expected.losses.size());
  for (size_t step = 0; step < losses.size(); ++step) {
    const double reference = expected.losses[step];
    EXPECT_NEAR(losses[step], reference, tolerance * std::abs(reference))
        << "step " << step;
  }
}

} // namespace zero::test

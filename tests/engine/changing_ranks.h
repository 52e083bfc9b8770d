// Defines the oracle of training whose ranks change: plain libtorch that runs,
// in each step, the batches of those who took part in it.
#pragma once

#include <gtest/gtest.h>
#include <zero/config.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/models.h"
#include "engine/oracle.h"

namespace zero::test {

inline void expect_plain_training_of(
    const std::string& model_name,
    const Config& config,
    const std::vector<std::vector<int>>& who,
    const torch::nn::Module& trained) {
  torch::manual_seed(7);
  const Model model = make_model(model_name);
  std::vector<at::Tensor> trained_once; // tied ones
  for (const auto& parameter : model.module->parameters()) {
    if (std::ranges::none_of(trained_once, [&](const at::Tensor& other) {
          return other.is_same(parameter);
        })) {
      trained_once.push_back(parameter);
    }
  }
  const auto optimizer = make_torch_optimizer(trained_once, config.optimizer);
  const auto accumulation =
      static_cast<int>(config.gradient_accumulation_steps.value_or(1));
  for (size_t step = 0; step < who.size(); ++step) {
    optimizer->zero_grad();
    for (int micro = 0; micro < accumulation; ++micro) {
      for (const int rank : who[step]) {
        const auto loss =
            model.loss(batch_seed(static_cast<int>(step), micro, rank));
        (loss / accumulation / static_cast<double>(who[step].size()))
            .backward();
      }
    }
    optimizer->step();
  }
  const auto expected = model.module->parameters();
  const auto parameters = trained.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(torch::allclose(parameters[i], expected[i], 1e-4, 1e-6))
        << "parameter " << i;
  }
}

} // namespace zero::test

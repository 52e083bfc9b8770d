// Defines what the tests of upstream cases have in common: small models, and
// training that is compared with plain libtorch's.
#pragma once

#include <zero/zero.h>

#include <functional>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "engine/error_of.h"
#include "engine/oracle.h"
#include "engine/settings.h"

namespace zero::test {

using Accumulate = LibzeroConfig::Accumulate;
using Tensors = std::vector<at::Tensor>;

// Parameters and nothing else.
struct Weights : torch::nn::Module {
  explicit Weights(const Tensors& values) {
    for (const auto& value : values) {
      all.push_back(
          register_parameter("weight" + std::to_string(all.size()), value));
    }
  }
  Tensors all;
};

// Linear layers of these sizes. Their values do not come from the generator of
// the process, which ranks that are threads would share.
inline torch::nn::Sequential make_mlp(const std::vector<int64_t>& sizes) {
  torch::nn::Sequential net;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) {
      net->push_back(torch::nn::ReLU());
    }
    net->push_back(torch::nn::Linear(sizes[i], sizes[i + 1]));
  }
  const torch::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (auto& parameter : net->parameters()) {
    parameter.copy_(0.3 * random_floats(parameter.sizes(), seed++));
  }
  return net;
}

inline Model mlp_model(const std::vector<int64_t>& sizes) {
  auto net = make_mlp(sizes);
  return {net.ptr(), [net, sizes](uint64_t seed) mutable {
            return torch::mse_loss(
                net->forward(random_floats({4, sizes.front()}, seed)),
                random_floats({4, sizes.back()}, seed + 1));
          }};
}

// Trains as train_plain() does, and compares the losses.
inline void expect_losses(
    const World& world,
    const Model& model,
    const Config& config,
    const Curve& curve,
    const std::function<void(int step)>& after_step = [](int) {}) {
  Engine engine(world, model.module, config);
  const auto accumulation = config.batch_sizes(world.size()).accumulation;
  for (size_t step = 0; step < curve.losses.size(); ++step) {
    double sum = 0;
    engine.run([&](int64_t micro) {
      const auto loss = model.loss(batch_seed(
          static_cast<int>(step), static_cast<int>(micro), world.rank()));
      sum += loss.item<double>() / static_cast<double>(accumulation);
      return loss;
    });
    at::Tensor mean = torch::full({1}, sum, torch::kDouble);
    world.communicator().all_reduce(mean, ReduceOp::mean).wait();
    const double expected = curve.losses[step];
    EXPECT_NEAR(mean.item<double>(), expected, 1e-5 * expected)
        << "step " << step;
    after_step(static_cast<int>(step));
  }
}

// The parameters are those of `plain` after a step of SGD.
inline void expect_updated(
    Engine& engine,
    torch::nn::Module& module,
    Tensors plain) {
  const torch::NoGradGuard no_grad;
  const auto guard = engine.gather(module);
  const auto parameters = module.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (plain[i].grad().defined()) {
      plain[i].sub_(0.5 * plain[i].grad());
      plain[i].mutable_grad().reset();
    }
    EXPECT_TRUE(torch::allclose(parameters[i], plain[i], 1e-4, 1e-6))
        << "parameter " << i;
  }
}

// What each of two ranks receives when so many bytes are reduced.
constexpr int64_t reduced(int64_t bytes) {
  return bytes / 2;
}

} // namespace zero::test

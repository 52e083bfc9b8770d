// Defines a training whose batches do not depend on the number of ranks: so it
// can go on with any number of them.
#pragma once

#include <zero/zero.h>

#include <string>
#include <vector>

#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {

inline constexpr int kMicroBatches = 12; // of a step, on all ranks together

inline Config training_config(const Setting& setting, int num_ranks) {
  Config config;
  config.zero_optimization.stage = setting.stage;
  config.zero_optimization.reduce_bucket_size = 100; // several buckets
  config.libzero.shared_memory = setting.shared;
  config.optimizer.lr = 0.01;
  config.train_micro_batch_size_per_gpu = 1;
  config.gradient_accumulation_steps = kMicroBatches / num_ranks;
  return config;
}

// The mean loss of the next step.
inline double train_step(
    const World& world,
    const Model& model,
    Engine& engine) {
  const int own = kMicroBatches / world.size();
  const auto step = static_cast<uint64_t>(engine.global_step());
  double sum = 0;
  engine.run([&](int64_t micro_step) {
    const auto batch = static_cast<uint64_t>(world.rank() * own + micro_step);
    const auto loss = model.loss(1000 * (step + 1) + 10 * batch);
    sum += loss.item<double>();
    return loss;
  });
  at::Tensor mean = torch::full({1}, sum / kMicroBatches, torch::kDouble);
  world.communicator().all_reduce(mean).wait();
  return mean.item<double>();
}

// Copies of all parameters and buffers.
inline std::vector<at::Tensor> values_of(
    Engine& engine,
    torch::nn::Module& module) {
  const auto guard = engine.gather(module);
  std::vector<at::Tensor> values;
  for (const auto& parameter : module.parameters()) {
    values.push_back(parameter.detach().clone());
  }
  for (const auto& buffer : module.buffers()) {
    values.push_back(buffer.clone());
  }
  return values;
}

} // namespace zero::test

// The engine over several hosts: as on one, with each byte once on the wire for
// each host.
#include <zero/zero.h>

#include <mutex>

#include "comm/run_hosts.h"
#include "engine/error_of.h"
#include "engine/oracle.h"
#include "launch/job.h"

namespace zero::test {
namespace {

constexpr int kSteps = 6;

const std::vector<std::vector<int>> kLayouts{
    {0, 1},
    {0, 0, 1, 1},
    {0, 1, 1}, // unequal
};

Config config_of(int stage, bool shared) {
  Config config;
  config.zero_optimization.stage = stage;
  config.zero_optimization.reduce_bucket_size = 500; // several buckets
  config.libzero.shared_memory = shared;
  config.optimizer.type = OptimizerConfig::Type::sgd;
  config.optimizer.lr = 0.1;
  config.optimizer.momentum = 0.9;
  return config;
}

std::vector<double> train(
    const World& world,
    const Model& model,
    Engine& engine) {
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const auto loss = model.loss(batch_seed(step, 0, world.rank()));
    engine.backward(loss);
    engine.step();
    at::Tensor mean = torch::full({1}, loss.item<double>(), torch::kDouble);
    world.communicator().all_reduce(mean, ReduceOp::mean).wait();
    losses.push_back(mean.item<double>());
  }
  return losses;
}

class EngineOverHosts : public testing::TestWithParam<std::string> {};

TEST_P(EngineOverHosts, LearnsAsPlainLibtorchDoes) {
  const double tolerance = GetParam() == "moe" ? 1e-12 : 1e-5;
  for (const auto& layout : kLayouts) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const bool shared : {true, false}) {
        SCOPED_TRACE(c10::str(
            GetParam(), " ", layout.size(), " ranks, stage ", stage, shared));
        const Config config = config_of(stage, shared);
        const Curve expected = train_plain(
            make_model(GetParam()),
            config,
            static_cast<int>(layout.size()),
            kSteps);
        run_hosts(layout, [&](const HostRank& rank) {
          const Model model = make_model(GetParam());
          if (rank.world.rank() != 0) { // the values are rank 0's
            const torch::NoGradGuard no_grad;
            for (auto& parameter : model.module->parameters()) {
              parameter.mul_(1.5);
            }
          }
          Engine engine(rank.world, model.module, config);
          const auto losses = train(rank.world, model, engine);
          expect_losses_of(expected, losses, tolerance);
          const auto guard = engine.gather(*model.module);
          expect_parameters_of(expected, *model.module, tolerance * 10);
          rank.world.barrier(); // others may still read what this one has
        });
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    EngineOverHosts,
    ::testing::Values("odd", "gpt", "moe", "resnet"),
    [](const auto& info) { return info.param; });

} // namespace
} // namespace zero::test

// All stages, with and without shared memory, on any number of ranks, give the
// losses and weights of plain libtorch.
#include <zero/zero.h>

#include <map>
#include <mutex>

#include "comm/ranks.h"
#include "engine/oracle.h"

namespace zero::test {
namespace {

constexpr int kParitySteps = 10;

struct Case {
  std::string model;
  int stage = 0;
  bool shared = true;
  int ranks = 2;
};

std::ostream& operator<<(std::ostream& stream, const Case& tested) {
  return stream << tested.model << ", stage " << tested.stage
                << (tested.shared ? ", shared" : ", not shared") << ", "
                << tested.ranks << " ranks";
}

Config config_of(const Case& tested) {
  Config config;
  config.zero_optimization.stage = tested.stage;
  config.zero_optimization.reduce_bucket_size = 500; // several buckets
  config.libzero.shared_memory = tested.shared;
  config.optimizer.lr = 1e-2;
  config.optimizer.weight_decay = 0.1;
  return config;
}

const Curve& oracle(const std::string& model, int ranks, const Config& config) {
  static std::map<std::string, Curve> known;
  const auto key =
      c10::str(model, " ", ranks, " ", static_cast<int>(config.optimizer.type));
  if (!known.contains(key)) {
    known[key] = train_plain(make_model(model), config, ranks, kParitySteps);
  }
  return known[key];
}

// What each rank does; returns the mean losses on rank 0.
std::vector<double> train(
    World world,
    const std::string& name,
    const Config& config,
    const std::function<void(Engine&, const Model&)>& at_end) {
  const Model model = make_model(name);
  if (world.rank() != 0) { // the values are rank 0's
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model.module->parameters()) {
      parameter.mul_(1.5);
    }
  }
  Engine engine(world, model.module, config);
  std::vector<double> losses;
  const auto accumulation =
      static_cast<int>(config.batch_sizes(world.size()).accumulation);
  for (int step = 0; step < kParitySteps; ++step) {
    double sum = 0;
    for (int micro = 0; micro < accumulation; ++micro) {
      const auto loss = model.loss(batch_seed(step, micro, world.rank()));
      sum += loss.item<double>() / accumulation;
      engine.backward(loss);
      const auto result = engine.step();
      EXPECT_EQ(result.updated, micro == accumulation - 1);
    }
    at::Tensor mean = torch::full({1}, sum, torch::kDouble);
    world.communicator().all_reduce(mean, ReduceOp::mean).wait();
    losses.push_back(mean.item<double>());
  }
  at_end(engine, model);
  return losses;
}

void expect_parity(const Case& tested, Backend backend, const Config& config) {
  SCOPED_TRACE(c10::str(tested, ", ", backend));
  const double tolerance = tested.model == "moe" ? 1e-12 : 1e-5;
  if (backend == Backend::local) {
    oracle(tested.model, tested.ranks, config); // once for all
  }
  run_ranks(backend, tested.ranks, [&](World world) {
    // Autograd does not survive a fork, so processes have it for themselves.
    const Curve& expected = oracle(tested.model, tested.ranks, config);
    const auto losses = train(
        world, tested.model, config, [&](Engine& engine, const Model& model) {
          EXPECT_EQ(engine.global_step(), kParitySteps);
          // Adam makes whole steps of gradients that are nothing but rounding.
          if (config.optimizer.type == OptimizerConfig::Type::adam) {
            return;
          }
          const auto guard = engine.gather(*model.module);
          expect_parameters_of(expected, *model.module, tolerance * 10);
        });
    expect_losses_of(expected, losses, tolerance);
  });
}

Config with_sgd(Config config) {
  config.optimizer.type = OptimizerConfig::Type::sgd;
  config.optimizer.lr = 0.1;
  config.optimizer.momentum = 0.9;
  config.optimizer.nesterov = true;
  return config;
}

class Parity : public ::testing::TestWithParam<std::string> {};

TEST_P(Parity, EveryStageAndNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const bool shared : {true, false}) {
        if (stage == 0 && !shared) {
          continue; // it shares nothing anyway
        }
        const Case tested{GetParam(), stage, shared, ranks};
        expect_parity(tested, Backend::local, config_of(tested));
        expect_parity(tested, Backend::local, with_sgd(config_of(tested)));
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    Parity,
    ::testing::Values("odd", "gpt", "moe", "lstm", "resnet"),
    [](const auto& info) { return info.param; });

TEST(ParityOfProcesses, Sample) {
  for (const Case& tested : std::initializer_list<Case>{
           {"gpt", 1, true, 2},
           {"moe", 2, true, 3},
           {"odd", 3, false, 4},
           {"resnet", 3, true, 2}}) {
    expect_parity(tested, Backend::shm, config_of(tested));
  }
}

} // namespace
} // namespace zero::test

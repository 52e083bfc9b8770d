// Ranks that take different ways through the model, or have different numbers
// of batches: no hang, and the gradient is the mean over ranks, with zeros
// where there was none.
#include <zero/zero.h>

#include <numeric>
#include <random>

#include "comm/ranks.h"
#include "comm/run_hosts.h"
#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

// Layers that a rank calls in any order, any number of times, or not at all.
struct LayersImpl : torch::nn::Module {
  static constexpr int kLayers = 7;
  LayersImpl() {
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(register_module(
          "layer" + std::to_string(i), torch::nn::Linear(11, 11)));
    }
  }
  at::Tensor forward(at::Tensor x, const std::vector<int>& way) {
    for (const int layer : way) {
      x = torch::tanh(layers[static_cast<size_t>(layer)](x));
    }
    return x.square().sum();
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Layers);

std::vector<int> way_of(int step, int rank) {
  std::mt19937 random(static_cast<unsigned>(100 * step + rank));
  std::vector<int> way;
  const int length = static_cast<int>(random() % 10);
  for (int i = 0; i < length; ++i) {
    way.push_back(static_cast<int>(random() % LayersImpl::kLayers));
  }
  return way;
}

at::Tensor loss_of(Layers& net, int step, int rank) {
  const auto x = random_floats({2, 11}, 1000U * step + rank);
  // A rank whose way is empty has a loss without any parameter of a layer.
  return net->forward(x.set_requires_grad(true), way_of(step, rank));
}

// The same by plain libtorch; counts[rank] is how many steps a rank has.
std::vector<at::Tensor> expected(const std::vector<int>& counts, double lr) {
  auto net = build<Layers>();
  torch::optim::SGD optimizer(net->parameters(), lr);
  const int ranks = static_cast<int>(counts.size());
  const int steps = *std::max_element(counts.begin(), counts.end());
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    for (int rank = 0; rank < ranks; ++rank) {
      if (step < counts[static_cast<size_t>(rank)]) {
        (loss_of(net, step, rank) / ranks).backward();
      }
    }
    optimizer.step();
  }
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : net->parameters()) {
    parameters.push_back(parameter.detach().clone());
  }
  return parameters;
}

void expect_equal(
    Engine& engine,
    torch::nn::Module& module,
    const std::vector<at::Tensor>& parameters) {
  const auto guard = engine.gather(module);
  const auto own = module.parameters();
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_TRUE(torch::allclose(own[i], parameters[i], 1e-4, 1e-6))
        << "parameter " << i;
  }
}

// On one host, and over several, of which one may have nothing to give.
void run_three(const Setting& setting, const std::function<void(World)>& body) {
  run_threads(3, body);
  if (!setting.shared && setting.stage < 3) {
    return; // as with shared memory, but for the last copy
  }
  for (const auto& layout : {std::vector{0, 1, 2}, std::vector{0, 0, 1}}) {
    run_hosts(layout, [&](const HostRank& rank) { body(rank.world); });
  }
}

TEST(DifferingRanks, TakeDifferentWays) {
  const std::vector<int> counts(3, 6);
  const auto reference = expected(counts, 0.05);
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_three(setting, [&](World world) {
      auto net = build<Layers>();
      Config config = plain_config(setting);
      config.optimizer.lr = 0.05;
      Engine engine(world, net.ptr(), config);
      for (int step = 0; step < 6; ++step) {
        engine.backward(loss_of(net, step, world.rank()));
        EXPECT_TRUE(engine.step().updated);
      }
      expect_equal(engine, *net, reference);
      world.barrier(); // others may still read what this one has
    });
  }
}

TEST(DifferingRanks, HaveDifferentNumbersOfBatches) {
  const std::vector<int> counts{5, 2, 0};
  const auto reference = expected(counts, 0.05);
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_three(setting, [&](World world) {
      auto net = build<Layers>();
      Config config = plain_config(setting);
      config.optimizer.lr = 0.05;
      Engine engine(world, net.ptr(), config);
      for (int step = 0; step < counts[static_cast<size_t>(world.rank())];
           ++step) {
        engine.backward(loss_of(net, step, world.rank()));
        engine.step();
      }
      engine.join();
      EXPECT_EQ(engine.global_step(), 5);
      expect_equal(engine, *net, reference);
      world.barrier(); // others may still read what this one has
    });
  }
}

// Another backward in the same round adds to it, on whichever ranks make one.
TEST(DifferingRanks, MakeDifferentNumbersOfBackwards) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_three(setting, [&](World world) {
      auto net = build<Layers>();
      Engine engine(world, net.ptr(), plain_config(setting));
      for (int i = 0; i < world.rank(); ++i) {
        auto& layer = net->layers[static_cast<size_t>(i)];
        engine.backward(layer(torch::ones({1, 11})).sum());
      }
      const at::Tensor first = engine.full_gradient(net->layers[0]->bias);
      if (world.rank() > 1) {
        EXPECT_TRUE(first.defined());
      }
      engine.step();
      const auto guard = engine.gather(*net);
      const auto plain = build<Layers>();
      // Ranks 1 and 2 used layer 0, rank 2 layer 1, nobody layer 2.
      const std::vector<double> uses{2, 1, 0};
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(torch::allclose(
            net->layers[i]->bias, plain->layers[i]->bias - 0.5 * uses[i] / 3))
            << "layer " << i;
      }
      world.barrier();
    });
  }
}

} // namespace
} // namespace zero::test

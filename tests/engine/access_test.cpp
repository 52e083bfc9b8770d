// Reading and writing whole parameters and gradients; what is noticed when a
// user goes past the engine; what the engine tells of itself.
#include <zero/zero.h>

#include "comm/ranks.h"
#include "engine/error_of.h"
#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

TEST(Access, WhatRankZeroWritesIsEverybodys) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(3, [&](World world) {
      auto net = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      {
        const auto guard =
            engine.gather(net->first->parameters(), Access::write);
        const torch::NoGradGuard no_grad;
        net->first->weight.fill_(world.rank() + 5);
      }
      const auto guard = engine.gather(*net);
      EXPECT_TRUE(torch::equal(
          net->first->weight, torch::full_like(net->first->weight, 5)));
      engine.backward(net(torch::ones({2, 7})).sum());
      EXPECT_TRUE(engine.step().updated);
    });
  }
}

TEST(Access, WhatIsWrittenAlreadyIsNotLentAgain) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      {
        const auto outer =
            engine.gather(net->first->parameters(), Access::write);
        const std::string text = error_of(
            [&] { const auto inner = engine.gather(*net, Access::write); });
        EXPECT_TRUE(has(text, "parameter 'first.")) << text;
        EXPECT_TRUE(has(text, "is being written already")) << text;
        {
          const torch::NoGradGuard no_grad;
          net->first->weight.fill_(world.rank() + 5);
        }
        // Others may be read and written meanwhile, and nothing is trained.
        const auto other =
            engine.gather(net->second->parameters(), Access::write);
        EXPECT_TRUE(
            has(error_of([&] {
                  const auto inner = engine.gather(net->first->parameters());
                }),
                "is being written already"));
        EXPECT_TRUE(
            has(error_of([&] { engine.step(); }), "before training goes on"));
      }
      const auto again = engine.gather(*net, Access::write);
      EXPECT_TRUE(torch::equal(
          net->first->weight, torch::full_like(net->first->weight, 5)));
    });
  }
}

TEST(Access, WhatOneRankCannotWriteNobodyWrites) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      const auto weight = net->first->weight;
      const auto tensor = world.rank() == 0 ? weight.detach() : weight;
      const std::string text = error_of(
          [&] { const auto guard = engine.gather({tensor}, Access::write); });
      const char* part = world.rank() == 0 ? "is no parameter of"
                                           : "another rank could not begin";
      EXPECT_TRUE(has(text, part)) << text;
      const auto guard = engine.gather({weight}, Access::write);
    });
  }
}

TEST(Access, FullGradientIsTheMeanOverRanks) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(3, [&](World world) {
      auto net = build<OddNet>();
      auto plain = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      engine.backward(net(random_floats({2, 7}, world.rank())).sum());
      for (int rank = 0; rank < 3; ++rank) {
        (plain(random_floats({2, 7}, rank)).sum() / 3).backward();
      }
      const auto own = net->named_parameters();
      for (const auto& item : plain->named_parameters()) {
        const auto gradient = engine.full_gradient(own[item.key()]);
        ASSERT_EQ(gradient.defined(), item.value().grad().defined())
            << item.key();
        if (gradient.defined()) {
          EXPECT_TRUE(
              torch::allclose(gradient, item.value().grad(), 1e-4, 1e-6))
              << item.key();
        }
      }
      engine.step();
    });
  }
}

TEST(Access, WhatIsDonePastTheEngineIsNamed) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    auto net = build<OddNet>();
    Engine engine(init(), net.ptr(), plain_config(setting));
    {
      const auto guard = engine.gather(*net);
      const torch::NoGradGuard no_grad;
      net->second->bias.mul_(2);
    }
    const auto loss = net(torch::ones({2, 7})).sum();
    const std::string changed = error_of([&] { engine.backward(loss); });
    EXPECT_TRUE(has(changed, "'second.bias' was changed")) << changed;
    EXPECT_TRUE(has(changed, "Fix:")) << changed;
    net->first->weight.set_data(torch::ones({15, 7}));
    const std::string replaced = error_of([&] { engine.step(); });
    EXPECT_TRUE(has(replaced, "'first.weight' was replaced")) << replaced;
  }
}

TEST(Access, AnAbsentParameterSaysSo) {
  auto net = build<OddNet>();
  Config config = plain_config({3, false});
  Engine engine(init(), net.ptr(), config);
  const std::string text =
      error_of([&] { static_cast<void>(net->first->weight.const_data_ptr()); });
  EXPECT_TRUE(has(text, "'first.weight' is partitioned")) << text;
  const auto guard = engine.gather(*net);
  EXPECT_NE(net->first->weight.const_data_ptr(), nullptr);
}

TEST(Access, ABackwardThroughAnOldGraphRaises) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    auto net = build<OddNet>();
    Engine engine(init(), net.ptr(), plain_config(setting));
    const auto old = net(torch::ones({2, 7})).sum();
    engine.backward(net(torch::ones({2, 7})).sum());
    engine.step();
    const std::string text = error_of([&] { engine.backward(old); });
    EXPECT_TRUE(has(text, "modified by an inplace operation")) << text;
    // Training goes on.
    engine.zero_grad();
    engine.backward(net(torch::ones({2, 7})).sum());
    EXPECT_TRUE(engine.step().updated);
  }
}

TEST(Access, AnOldGraphOfWhatWasNotUpdatedIsGood) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    auto net = build<OddNet>();
    Engine engine(init(), net.ptr(), plain_config(setting));
    const auto x = torch::ones({2, 16}).set_requires_grad(true);
    const auto old = net->second(x).square().sum(); // needs the weight again
    engine.backward(net->first(torch::ones({2, 7})).sum());
    engine.step();
    engine.backward(old);
    EXPECT_TRUE(engine.step().updated);
  }
}

TEST(Access, ASecondEngineOfTheSameModuleIsRefused) {
  auto net = build<OddNet>();
  const World world = init();
  const Engine engine(world, net.ptr(), plain_config({1, true}));
  const std::string text = error_of([&] {
    const Engine second(world, net.ptr(), plain_config({1, true}));
  });
  EXPECT_TRUE(has(text, "belongs to another engine")) << text;
  EXPECT_TRUE(has(text, "'first.weight'")) << text;
}

TEST(Access, TheModuleIsItsOwnAgainAfterwards) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      auto plain = build<OddNet>();
      { const Engine engine(world, net.ptr(), plain_config(setting)); }
      world.barrier();
      const auto x = torch::ones({2, 7});
      EXPECT_TRUE(torch::equal(net(x), plain(x)));
      net(x).sum().backward();
      const torch::NoGradGuard no_grad;
      net->first->weight.sub_(net->first->weight.grad());
    });
  }
}

TEST(Access, DifferentModulesAreNamed) {
  run_threads(2, [&](World world) {
    const torch::nn::Linear layer(world.rank() == 0 ? 4 : 5, 3);
    const std::string text =
        error_of([&] { const Engine engine(world, layer.ptr(), Config{}); });
    EXPECT_TRUE(has(text, "different modules")) << text;
    EXPECT_TRUE(has(text, world.rank() == 0 ? "rank 1 has" : "[3, 5]")) << text;
  });
}

// N ranks, P parameters without padding: DESIGN's rules for float32 and Adam.
TEST(Access, MemoryAndTrafficAreWhatTheRulesSay) {
  constexpr int64_t kRanks = 2;
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(kRanks, [&](World world) {
      auto net =
          build_with<torch::nn::Linear>(64, 48); // 3072 + 48, multiples of 16
      const int64_t p = 4 * (64 * 48 + 48);
      Config config = plain_config(setting);
      config.optimizer.type = OptimizerConfig::Type::adam;
      config.zero_optimization.reduce_bucket_size = 512;
      Engine engine(world, net.ptr(), config);
      engine.reset_traffic();
      engine.backward(net->forward(torch::ones({2, 64})).sum());
      engine.step();
      const auto memory = engine.memory();
      const bool whole =
          setting.stage == 0 || (setting.stage < 3 && !setting.shared);
      EXPECT_EQ(memory.parameters, whole ? p : p / kRanks);
      EXPECT_EQ(memory.gradients, setting.stage < 2 ? p : p / kRanks);
      EXPECT_EQ(memory.optimizer, setting.stage == 0 ? 2 * p : 2 * p / kRanks);
      EXPECT_EQ(memory.spilled, 0);
      EXPECT_EQ(
          memory.gathered_peak > 0, setting.stage == 3 && !setting.shared);
      if (setting.stage < 2) {
        EXPECT_EQ(memory.buffers, 0);
      } else {
        EXPECT_EQ(memory.buffers, 5 * 512 * 4);
      }
      // This rank's share of what all ranks receive together: the reduction
      // p (N - 1) / N, then the same again where it has to get parameters.
      const int64_t share = p * (kRanks - 1) / kRanks;
      const auto traffic = engine.traffic();
      if (setting.stage == 0 || (setting.stage < 3 && !setting.shared)) {
        EXPECT_EQ(traffic.intra_node, 2 * share);
      } else if (setting.shared) {
        EXPECT_EQ(traffic.intra_node, share);
      } else {
        EXPECT_LE(traffic.intra_node, 3 * share);
        EXPECT_GE(traffic.intra_node, 2 * share);
      }
      EXPECT_EQ(traffic.inter_node, 0);
      EXPECT_EQ(traffic.control, 16 * (kRanks - 1));
    });
  }
}

// Each layer is needed in the forward and, but for the first, which has no
// gradient to pass on, in the backward in reverse. What is needed soonest
// stays, so that from the second step on the last layers of the budget come
// only once.
TEST(Access, StageThreeGetsWhatOrderAndBudgetPredict) {
  constexpr int64_t kLayers = 6;
  constexpr int64_t kLayerBytes = 4 * 64 * 64;
  run_threads(2, [&](World world) {
    for (int64_t kept = 1; kept <= kLayers; ++kept) {
      torch::nn::Sequential net;
      for (int64_t i = 0; i < kLayers; ++i) {
        net->push_back(build_with<torch::nn::Linear>(
            torch::nn::LinearOptions(64, 64).bias(false)));
      }
      Config config = plain_config({3, false});
      config.libzero.gather_budget.bytes = kept * kLayerBytes;
      // What is fetched ahead of the next step would be counted with this one.
      config.zero_optimization.stage3_prefetch_bucket_size = 0;
      Engine engine(world, net.ptr(), config);
      for (int step = 0; step < 4; ++step) {
        engine.reset_traffic();
        engine.backward(net->forward(torch::ones({2, 64})).sum());
        engine.step();
        const int64_t gathers =
            kLayers + std::max<int64_t>(0, kLayers - kept - 1);
        if (step > 0) {
          EXPECT_EQ(
              engine.traffic().intra_node,
              (kLayers + gathers) * kLayerBytes / 2)
              << kept;
        }
      }
    }
  });
}

} // namespace
} // namespace zero::test

// What DeepSpeed tests of training, where no other test of ours does.
// docs/upstream_cases.md has all cases, by the upstream tests' names.
#include <zero/zero.h>

#include <algorithm>
#include <limits>

#include "engine/upstream.h"

namespace zero::test {
namespace {

TEST(UpstreamCases, TheMeanIsTheSameHoweverItIsDivided) {
  at_every_stage(2, [](World world, const Setting& setting) {
    for (const bool prescale : {false, true}) {
      for (const double factor : {1.0, 2.0, 3.0}) {
        const auto net = std::make_shared<Weights>(Tensors{torch::zeros({2})});
        Config config = plain_config(setting);
        config.optimizer.lr = 1;
        config.prescale_gradients = prescale;
        config.gradient_predivide_factor = factor;
        Engine engine(world, net, config);
        const auto x = torch::tensor({1.0F, 2.0F});
        engine.backward((net->all[0] * x * (2 * world.rank())).sum());
        engine.step();
        const auto guard = engine.gather(*net);
        EXPECT_TRUE(torch::allclose(net->all[0], -x)) << prescale << factor;
      }
    }
  });
}

TEST(UpstreamCases, SumsInsteadOfMeansAreRefused) {
  const auto text = error_of(
      [] { Config::from_json(R"({"gradient_allreduce_op": "sum"})"); });
  EXPECT_TRUE(has(text, "gradient_allreduce_op")) << text;
}

TEST(UpstreamCases, TheLastMicroBatchIsInTheMean) {
  at_every_stage(2, [](World world, const Setting& setting) {
    for (const auto how : {Accumulate::shard, Accumulate::full}) {
      for (const auto dtype : {torch::kBFloat16, torch::kFloat}) {
        const auto net =
            std::make_shared<Weights>(Tensors{torch::ones({4}, dtype)});
        Config config = accumulating(plain_config(setting), 2);
        config.libzero.accumulate = how;
        Engine engine(world, net, config);
        const auto x =
            torch::tensor({1, 3, 5, 7}, torch::kInt) + 18 * world.rank();
        engine.backward((net->all[0] * x.to(dtype)).sum());
        EXPECT_FALSE(engine.step().updated);
        engine.backward((net->all[0] * (x + 10).to(dtype)).sum());
        EXPECT_TRUE(torch::equal(
            engine.full_gradient(net->all[0]),
            torch::tensor({15, 17, 19, 21}, torch::kFloat)))
            << dtype;
        EXPECT_TRUE(engine.step().updated);
      }
    }
  });
}

// Every micro-batch trains every other parameter, and the next one the rest.
Model alternating(Model model) {
  model.loss = [module = model.module, inner = model.loss](uint64_t seed) {
    bool trained = seed / 10'000 % 2 == 0; // the number of the micro-step
    for (auto& parameter : module->parameters()) {
      parameter.set_requires_grad(trained);
      trained = !trained;
    }
    const auto loss = inner(seed);
    for (auto& parameter : module->parameters()) {
      parameter.set_requires_grad(true);
    }
    return loss;
  };
  return model;
}

TEST(UpstreamCases, RequiresGradAlternatesWithEveryMicroBatch) {
  const auto make = [] { return alternating(mlp_model({4, 5, 6, 3})); };
  const auto curve =
      train_plain(make(), accumulating(adam_config({0, true}), 2), 2, 5);
  at_every_stage(2, [&](World world, const Setting& setting) {
    expect_losses(world, make(), accumulating(adam_config(setting), 2), curve);
  });
}

// 15 elements on two ranks, whose shares are not equal.
void expect_three_exact_layers(
    const World& world,
    const Config& config,
    bool clears) {
  at::Tensor part = torch::ones({15});
  part.narrow(0, 8, 7).fill_(2);
  part = part.view({3, 5});
  const double own = world.rank() == 0 ? 1 : 100; // rank 0's values count
  const auto net = std::make_shared<Weights>(
      Tensors{part * own, part * 2 * own, part * 3 * own});
  Engine engine(world, net, config);
  const bool keeps_nothing = config.libzero.gather_budget.bytes == 0;
  for (int pass = 1; pass <= 3; ++pass) {
    at::Tensor x = torch::ones({3, 5});
    const Tensors expected{part, 2 * part.square(), 6 * part.pow(3)};
    for (size_t i = 0; i < 3; ++i) {
      x = net->all[i] * x;
      EXPECT_TRUE(torch::equal(x, expected[i])) << "layer " << i;
      if (keeps_nothing) {
        EXPECT_EQ(engine.memory().gathered, 0) << "layer " << i;
      }
    }
    engine.backward(x.sum());
    const std::vector<double> factors{6, 3, 2};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(torch::equal(
          engine.full_gradient(net->all[i]),
          (clears ? 1 : pass) * factors[i] * part.square()))
          << "layer " << i << ", pass " << pass;
    }
    world.barrier(); // all have read it
    if (clears && pass < 3) {
      engine.zero_grad();
    }
  }
  EXPECT_GT(engine.step().grad_norm, 0);
  if (keeps_nothing) {
    EXPECT_EQ(engine.memory().gathered, 0);
  }
}

TEST(UpstreamCases, ThreeSmallLayersAreExact) {
  at_every_stage(2, [](World world, const Setting& setting) {
    for (const bool clears : {false, true}) {
      for (const int64_t prefetched : {0, 45}) {
        Config config = plain_config(setting);
        config.zero_optimization.stage3_prefetch_bucket_size = prefetched;
        config.libzero.gather_budget.bytes = 4 * prefetched;
        expect_three_exact_layers(world, config, clears);
      }
    }
  });
}

TEST(UpstreamCases, AHundredLayersAreWrittenOneAfterAnother) {
  at_every_stage(2, [](World world, const Setting& setting) {
    Tensors zeros(100);
    for (auto& each : zeros) {
      each = torch::zeros({100});
    }
    const auto net = std::make_shared<Weights>(zeros);
    Engine engine(world, net, plain_config(setting));
    for (size_t i = 0; i < 100; ++i) {
      auto guard = engine.gather({net->all[i]}, Access::write);
      const torch::NoGradGuard no_grad;
      if (world.rank() == 0) {
        net->all[i].narrow(0, 0, 50).fill_(i % 2 == 0 ? 2 : 0.5);
        net->all[i].narrow(0, 50, 50).fill_(i % 2 == 0 ? 0.25 : 4);
      }
      guard.release();
    }
    auto expected = torch::full({100}, 2.0);
    expected.narrow(0, 50, 50).fill_(0.25);
    for (int pass = 0; pass < 3; ++pass) {
      auto x = torch::ones({100});
      for (size_t i = 0; i < 100; ++i) {
        x = x * net->all[i];
        EXPECT_TRUE(torch::equal(x, i % 2 == 0 ? expected : torch::ones({100})))
            << "layer " << i;
      }
      engine.backward(x.sum());
      engine.zero_grad();
    }
  });
}

TEST(UpstreamCases, AGroupWithoutParametersIsNamed) {
  at_every_stage(1, [](World world, const Setting& setting) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
      torch::nn::Linear net(4, 4);
      net->to(dtype);
      Config config = plain_config(setting);
      // All are in the first, so that the rest has none.
      config.libzero.parameter_groups = {{.match = "*", .weight_decay = 0}};
      {
        Engine engine(world, net.ptr(), config);
        engine.backward(net(torch::ones({2, 4}, dtype)).sum());
        EXPECT_TRUE(engine.step().updated);
      }
      config.libzero.parameter_groups.push_back({.match = "*bias"});
      const auto text =
          error_of([&] { const Engine engine(world, net.ptr(), config); });
      EXPECT_TRUE(has(text, "'*bias'")) << text;
    }
  });
}

TEST(UpstreamCases, SmallParametersStayAndLargeOnesGo) {
  run_threads(2, [](World world) {
    torch::nn::Linear net(10, 10);
    Config config = plain_config({3, false});
    config.zero_optimization.stage3_param_persistence_threshold = 50;
    config.libzero.gather_budget.bytes = 0;
    Engine engine(world, net.ptr(), config);
    for (int step = 0; step < 3; ++step) {
      static_cast<void>(net(torch::ones({2, 10})));
      EXPECT_NE(net->bias.const_data_ptr(), nullptr);
      EXPECT_ANY_THROW(static_cast<void>(net->weight.const_data_ptr()));
      engine.backward(net(torch::ones({2, 10})).sum());
      engine.step();
    }
  });
}

TEST(UpstreamCases, TrainingAndEvaluationTakeTurns) {
  const auto curve =
      train_plain(make_model("gpt"), adam_config({0, true}), 2, 6);
  at_every_stage(2, [&](World world, const Setting& setting) {
    for (const int64_t prefetched : {0, 5000, 1'000'000}) {
      Config config = adam_config(setting);
      config.zero_optimization.stage3_prefetch_bucket_size = prefetched;
      const Model model = make_model("gpt");
      expect_losses(world, model, config, curve, [&](int step) {
        if (step % 2 == 1) {
          model.module->eval();
          const torch::NoGradGuard no_grad;
          for (uint64_t batch = 0; batch < 3; ++batch) {
            EXPECT_GT(model.loss(batch).item<double>(), 0);
          }
          model.module->train();
        }
      });
    }
  });
}

TEST(UpstreamCases, TheEndOfAGuardDropsWhatItGathered) {
  run_threads(2, [](World world) {
    torch::nn::Linear net(10, 10);
    Config config = plain_config({3, false});
    config.libzero.gather_budget.bytes = 0;
    Engine engine(world, net.ptr(), config);
    {
      const auto guard = engine.gather(*net);
      EXPECT_GE(engine.memory().gathered, 4 * (100 + 10));
      EXPECT_NE(net->weight.const_data_ptr(), nullptr);
    }
    EXPECT_EQ(engine.memory().gathered, 0);
    EXPECT_ANY_THROW(static_cast<void>(net->weight.const_data_ptr()));
  });
}

TEST(UpstreamCases, WritingUnderAGuardForReadingIsAnErrorOnEveryRank) {
  at_every_stage(2, [](World world, const Setting& setting) {
    torch::nn::Linear net(10, 10);
    Engine engine(world, net.ptr(), plain_config(setting));
    {
      const auto guard = engine.gather({net->weight});
      const torch::NoGradGuard no_grad;
      net->weight.add_(0);
    }
    const auto text = error_of([&] { engine.step(); });
    EXPECT_TRUE(has(text, "'weight' was changed")) << text;
  });
}

TEST(UpstreamCases, UnusedParametersAreLeftAloneOrNamed) {
  at_every_stage(2, [](World world, const Setting& setting) {
    for (const bool ignored : {true, false}) {
      const auto net = std::make_shared<Weights>(
          Tensors{torch::ones({5}), torch::ones({7})});
      Config config = plain_config(setting);
      config.optimizer.weight_decay = 0.1;
      config.zero_optimization.ignore_unused_parameters = ignored;
      Engine engine(world, net, config);
      engine.backward(net->all[0].sum());
      const auto text = error_of([&] { engine.step(); });
      EXPECT_EQ(has(text, "'weight1'"), !ignored) << text;
      EXPECT_EQ(has(text, "ignore_unused_parameters"), !ignored) << text;
      EXPECT_FALSE(has(text, "'weight0'")) << text;
      const auto guard = engine.gather(*net);
      EXPECT_TRUE(torch::equal(net->all[1], torch::ones({7})));
    }
  });
}

// Gradients belong to the engine when they are complete; a hook comes before.
TEST(UpstreamCases, GradientsThatAHookEditsLowerTheNorm) {
  at_every_stage(2, [](World world, const Setting& setting) {
    auto net = make_mlp({5, 7, 3});
    auto plain = make_mlp({5, 7, 3});
    Config config = plain_config(setting);
    config.optimizer.lr = 0;
    Engine engine(world, net.ptr(), config);
    const auto x = random_floats({4, 5}, 9);
    engine.backward(net->forward(x).sum());
    const double before = engine.step().grad_norm;
    for (auto& parameter : net->parameters()) {
      parameter.register_hook(
          [](const at::Tensor& gradient) { return gradient.clamp(-1, 1); });
    }
    engine.backward(net->forward(x).sum());
    const double after = engine.step().grad_norm;

    plain->forward(x).sum().backward();
    double square = 0;
    for (const auto& parameter : plain->parameters()) {
      square += parameter.grad().clamp(-1, 1).square().sum().item<double>();
    }
    EXPECT_LT(after, before);
    EXPECT_NEAR(after, std::sqrt(square), 1e-5 * after);
  });
}

// Where upstream counts collectives, bytes are what can be counted here.
TEST(UpstreamCases, AccumulatingInFullReducesOnce) {
  constexpr int64_t kBytes = 4 * (64 * 48 + 48);
  at_every_stage(2, [](World world, const Setting& setting) {
    for (const auto how : {Accumulate::shard, Accumulate::full}) {
      torch::nn::Linear net(64, 48);
      Config config = accumulating(plain_config(setting), 4);
      config.libzero.accumulate = how;
      config.libzero.gather_budget.share = 1; // nothing is gathered again
      Engine engine(world, net.ptr(), config);
      int64_t received = 0;
      for (int micro = 0; micro < 4; ++micro) {
        const auto loss = net(torch::ones({2, 64})).sum();
        engine.reset_traffic();
        engine.backward(loss);
        received += engine.traffic().intra_node;
        EXPECT_EQ(engine.step().updated, micro == 3);
      }
      const bool every_time = setting.stage >= 2 && how == Accumulate::shard;
      EXPECT_EQ(received, (every_time ? 4 : 1) * reduced(kBytes));
    }
  });
}

// By autograd alone, of a tensor that is no single number.
TEST(UpstreamCases, OneBackwardForThreeEngines) {
  using Nets = std::vector<torch::nn::Sequential>;
  const auto combined = [](Nets& nets, int step, int rank) {
    const auto x = random_floats({2, 4}, batch_seed(step, 0, rank));
    return nets[0]->forward(x) + nets[1]->forward(x) / 2 +
        nets[2]->forward(x) / 3;
  };
  at_every_stage(2, [&](World world, const Setting& setting) {
    Nets nets;
    Nets plain;
    std::vector<std::unique_ptr<Engine>> engines;
    for (const int64_t width : {3, 4, 5}) {
      nets.push_back(make_mlp({4, width, 4}));
      plain.push_back(make_mlp({4, width, 4}));
      engines.push_back(std::make_unique<Engine>(
          world, nets.back().ptr(), plain_config(setting)));
    }
    const auto weights = torch::full({2, 4}, 0.1);
    for (int step = 0; step < 2; ++step) {
      combined(nets, step, world.rank()).backward(weights);
      for (int rank = 0; rank < 2; ++rank) {
        combined(plain, step, rank).backward(weights / 2);
      }
      for (size_t i = 0; i < nets.size(); ++i) {
        EXPECT_TRUE(engines[i]->step().updated);
        expect_updated(*engines[i], *nets[i], plain[i]->parameters());
      }
    }
  });
}

} // namespace
} // namespace zero::test

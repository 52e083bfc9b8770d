// Modules and uses that are unlike the usual: half precision, gradients with
// strides of their own, several forwards, exceptions, evaluation, two engines.
#include <zero/zero.h>

#include <thread>

#include "comm/ranks.h"
#include "engine/models.h"
#include "engine/settings.h"
#include "engine/upstream.h"

namespace zero::test {
namespace {

// Losses of a few steps on 2 ranks as threads; the last rank's values.
std::vector<double> losses_of(
    const Setting& setting,
    const std::function<std::vector<double>(World, Config)>& train) {
  std::vector<double> losses;
  run_threads(2, [&](World world) {
    auto own = train(world, plain_config(setting));
    if (world.rank() == 0) {
      losses = std::move(own);
    }
  });
  return losses;
}

TEST(ModuleCases, EveryRunHasTheSameBits) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const auto train = [](World world, Config config) {
      const Model model = make_model("moe");
      config.optimizer.lr = 0.05;
      Engine engine(world, model.module, config);
      std::vector<double> losses;
      for (uint64_t step = 0; step < 6; ++step) {
        const auto loss = model.loss(10 * step + world.rank());
        losses.push_back(loss.item<double>());
        engine.backward(loss);
        losses.push_back(engine.step().grad_norm);
      }
      return losses;
    };
    const auto first = losses_of(setting, train);
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(losses_of(setting, train), first);
    }
  }
}

TEST(ModuleCases, HalfPrecisionLearns) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    for (const auto& setting : all_settings()) {
      SCOPED_TRACE(c10::str(setting, " ", dtype));
      const auto losses = losses_of(setting, [&](World world, Config config) {
        torch::nn::Linear net(24, 8);
        net->to(dtype);
        config.optimizer.lr = 0.05;
        Engine engine(world, net.ptr(), config);
        std::vector<double> own;
        for (int step = 0; step < 10; ++step) {
          const auto loss = net(torch::ones({4, 24}, dtype))
                                .to(torch::kFloat)
                                .square()
                                .mean();
          own.push_back(loss.item<double>());
          engine.backward(loss);
          engine.step();
        }
        return own;
      });
      EXPECT_LT(losses.back(), losses.front() / 4);
    }
  }
}

TEST(ModuleCases, GradientsMayHaveStridesOfTheirOwn) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      struct Net : torch::nn::Module {
        Net() {
          weight = register_parameter("weight", torch::zeros({5, 3}));
        }
        at::Tensor weight;
      };
      auto net = std::make_shared<Net>();
      Engine engine(world, net, plain_config(setting));
      const auto factors = torch::arange(15, torch::kFloat).view({3, 5});
      engine.backward((net->weight.t() * factors).sum());
      engine.step();
      const auto guard = engine.gather(*net);
      EXPECT_TRUE(torch::allclose(net->weight, -0.5 * factors.t()));
    });
  }
}

TEST(ModuleCases, TwoForwardsBeforeOneBackward) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      auto plain = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      const auto x = random_floats({2, 7}, 1);
      const auto y = random_floats({2, 7}, 2);
      const auto first = net(x);
      const auto second = net(y);
      engine.backward((first - second).square().mean());
      engine.step();
      (plain(x) - plain(y)).square().mean().backward();
      expect_updated(engine, *net, plain->parameters());
    });
  }
}

// Keeps no activations: the forward is run again when the backward comes.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      OddNetImpl* net) {
    context->saved_data["net"] = reinterpret_cast<int64_t>(net);
    context->save_for_backward({x});
    return net->forward(x);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& gradients) {
    auto* net =
        reinterpret_cast<OddNetImpl*>(context->saved_data["net"].toInt());
    const at::AutoGradMode enabled(true);
    const auto x = context->get_saved_variables()[0].detach();
    x.set_requires_grad(true);
    torch::autograd::backward({net->forward(x)}, {gradients[0]});
    return {x.grad(), {}};
  }
};

TEST(ModuleCases, ActivationsMayBeRecomputed) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      auto plain = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      const auto x = random_floats({2, 7}, 5).set_requires_grad(true);
      engine.backward(Recomputed::apply(x, net.get()).square().mean());
      engine.step();
      plain(x).square().mean().backward();
      expect_updated(engine, *net, plain->parameters());
    });
  }
}

TEST(ModuleCases, TrainingGoesOnAfterExceptions) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      EXPECT_ANY_THROW(net(torch::ones({2, 8}))); // in the forward
      auto loss = net(torch::ones({2, 7})).sum();
      loss = loss + torch::ones({}).set_requires_grad(true);
      loss.register_hook([](const at::Tensor&) -> at::Tensor {
        throw std::runtime_error("in the backward");
      });
      EXPECT_ANY_THROW(engine.backward(loss));
      engine.zero_grad();
      engine.backward(net(torch::ones({2, 7})).sum());
      EXPECT_TRUE(engine.step().updated);
    });
  }
}

TEST(ModuleCases, EvaluationInAnyMode) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      auto plain = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      const auto x = random_floats({2, 7}, 3);
      const auto expected = plain(x).detach();
      {
        const torch::NoGradGuard no_grad;
        EXPECT_TRUE(torch::equal(net(x), expected));
      }
      {
        const c10::InferenceMode inference;
        EXPECT_TRUE(torch::equal(net(x), expected));
      }
      engine.backward(net(x).sum());
      EXPECT_TRUE(engine.step().updated);
    });
  }
}

TEST(ModuleCases, ForwardsInSeveralThreads) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    auto net = build<TinyGpt>();
    auto plain = build<TinyGpt>();
    Engine engine(init(), net.ptr(), plain_config(setting));
    const auto ids = random_ints(TinyGptImpl::kVocabulary, {2, 8}, 4);
    const auto expected = plain(ids).detach();
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const torch::NoGradGuard no_grad;
        for (int repeat = 0; repeat < 5; ++repeat) {
          EXPECT_TRUE(torch::equal(net(ids), expected));
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
}

// The gradient of one network passes through the other, as in a GAN.
TEST(ModuleCases, TwoEnginesInOneProcess) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      torch::nn::Linear maker(6, 6);
      torch::nn::Linear judge(6, 1);
      Config config = plain_config(setting);
      config.optimizer.lr = 0.1;
      Engine makers(world, maker.ptr(), config);
      Engine judges(world, judge.ptr(), config);
      for (uint64_t step = 0; step < 3; ++step) {
        const auto noise = random_floats({3, 6}, 10 * step + world.rank());
        judges.backward(judge(maker(noise).detach()).square().mean());
        EXPECT_TRUE(judges.step().updated);
        makers.backward(judge(maker(noise)).mean());
        EXPECT_TRUE(makers.step().updated);
        judges.zero_grad();
      }
    });
  }
}

// Requires_grad switched between steps: a parameter without a gradient stays.
TEST(ModuleCases, RequiresGradMayBeSwitched) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<OddNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      const auto value = [&] {
        const auto guard = engine.gather(*net);
        return net->first->weight.detach().clone();
      };
      const auto step = [&](bool trained) {
        net->first->weight.set_requires_grad(trained);
        const auto before = value();
        engine.backward(net(torch::ones({2, 7})).sum());
        engine.step();
        EXPECT_EQ(torch::equal(before, value()), !trained);
      };
      step(true);
      step(false);
      step(true);
    });
  }
}

} // namespace
} // namespace zero::test

// Several micro-batches make one update, in either way of keeping gradients.
#include <zero/zero.h>

#include "comm/ranks.h"
#include "engine/oracle.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

void expect_losses(
    const Setting& setting,
    const Config& config,
    const Curve& curve,
    bool user_calls_autograd) {
  SCOPED_TRACE(c10::str(setting));
  run_threads(2, [&](World world) {
    const Model model = make_model("gpt");
    Engine engine(world, model.module, config);
    for (int step = 0; step < 4; ++step) {
      double sum = 0;
      for (int micro = 0; micro < 3; ++micro) {
        const auto loss = model.loss(batch_seed(step, micro, world.rank()));
        sum += loss.item<double>() / 3;
        if (user_calls_autograd) {
          (loss / 3).backward();
        } else {
          engine.backward(loss);
          EXPECT_EQ(engine.step().updated, micro == 2);
        }
      }
      if (user_calls_autograd) {
        EXPECT_TRUE(engine.step().updated);
      }
      at::Tensor mean = torch::full({1}, sum, torch::kDouble);
      world.communicator().all_reduce(mean, ReduceOp::mean).wait();
      const double reference = curve.losses[static_cast<size_t>(step)];
      EXPECT_NEAR(mean.item<double>(), reference, 1e-5 * reference)
          << "step " << step;
    }
  });
}

TEST(Accumulation, GivesTheLossesOfPlainLibtorch) {
  Config config;
  config.gradient_accumulation_steps = 3;
  config.train_micro_batch_size_per_gpu = 1;
  config.optimizer.lr = 1e-2;
  const Curve curve = train_plain(make_model("gpt"), config, 2, 4);
  for (const auto& setting : all_settings()) {
    for (const auto how :
         {LibzeroConfig::Accumulate::shard, LibzeroConfig::Accumulate::full}) {
      config.zero_optimization.stage = setting.stage;
      config.zero_optimization.reduce_bucket_size = 999;
      config.libzero.shared_memory = setting.shared;
      config.libzero.accumulate = how;
      expect_losses(setting, config, curve, false);
    }
  }
}

TEST(Accumulation, ByPlainAutogradIsReducedAtTheStep) {
  Config config;
  config.gradient_accumulation_steps = 3;
  config.train_micro_batch_size_per_gpu = 1;
  config.optimizer.lr = 1e-2;
  const Curve curve = train_plain(make_model("gpt"), config, 2, 4);
  config.gradient_accumulation_steps = 1;
  for (const auto& setting : all_settings()) {
    config.zero_optimization.stage = setting.stage;
    config.zero_optimization.reduce_bucket_size = 999;
    config.libzero.shared_memory = setting.shared;
    expect_losses(setting, config, curve, true);
  }
}

TEST(Accumulation, RunDoesAWholeRound) {
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    const Config config = accumulating(plain_config({2, true}), 4);
    Engine engine(world, model.module, config);
    std::vector<int64_t> calls;
    const auto result = engine.run([&](int64_t micro_step) {
      calls.push_back(micro_step);
      return model.loss(static_cast<uint64_t>(micro_step));
    });
    EXPECT_TRUE(result.updated);
    EXPECT_FALSE(result.abandoned);
    EXPECT_EQ(result.step, 1);
    EXPECT_EQ(calls, (std::vector<int64_t>{0, 1, 2, 3}));
  });
}

TEST(Accumulation, ARunThatAnExceptionCutShortGoesOn) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    const Model model = make_model("odd");
    const Config config = accumulating(plain_config(setting), 2);
    Engine engine(world, model.module, config);
    bool fails = world.rank() == 1;
    std::vector<int64_t> calls;
    const auto forward = [&](int64_t micro_step) {
      if (micro_step == 1 && std::exchange(fails, false)) {
        throw std::runtime_error("no data");
      }
      calls.push_back(micro_step);
      return model.loss(static_cast<uint64_t>(micro_step));
    };
    if (world.rank() == 1) {
      EXPECT_THROW(engine.run(forward), std::runtime_error);
    }
    EXPECT_TRUE(engine.run(forward).updated);
    EXPECT_TRUE(engine.run(forward).updated);
    EXPECT_EQ(calls, (std::vector<int64_t>{0, 1, 0, 1}));
    EXPECT_EQ(engine.global_step(), 2);
  });
}

TEST(Accumulation, JoinUsesARoundThatIsNotFinished) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Linear>(4, 1);
    const Config config = accumulating(plain_config(setting), 2);
    Engine engine(world, net.ptr(), config);
    for (int batch = 0; batch < 3; ++batch) {
      engine.backward(net(torch::ones({1, 4})).sum());
      engine.step();
    }
    engine.join();
    EXPECT_EQ(engine.global_step(), 2);
  });
}

TEST(Accumulation, AnErrorAboutUnusedParametersGivesTheRoundUp) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Linear>(4, 1);
    Config config = plain_config(setting);
    config.zero_optimization.ignore_unused_parameters = false;
    Engine engine(world, net.ptr(), config);
    engine.backward(100 * net->bias.sum());
    EXPECT_THROW(engine.step(), ConfigError);
    engine.backward(net(torch::ones({1, 4})).sum());
    const auto result = engine.step();
    EXPECT_TRUE(result.updated);
    EXPECT_NEAR(result.grad_norm, std::sqrt(5.0), 1e-5);
  });
}

TEST(Accumulation, ZeroGradForgetsTheRound) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      const Model model = make_model("odd");
      const Model other = make_model("odd");
      Engine engine(world, model.module, plain_config(setting));
      engine.backward(model.loss(7));
      engine.zero_grad();
      engine.backward(model.loss(8));
      engine.step();
      other.loss(8).backward();
      const auto guard = engine.gather(*model.module);
      const auto parameters = model.module->parameters();
      const auto plain = other.module->parameters();
      for (size_t i = 0; i < plain.size(); ++i) {
        const auto updated = plain[i].grad().defined()
            ? plain[i] - 0.5 * plain[i].grad()
            : plain[i];
        EXPECT_TRUE(torch::allclose(parameters[i], updated, 1e-4, 1e-6)) << i;
      }
    });
  }
}

} // namespace
} // namespace zero::test

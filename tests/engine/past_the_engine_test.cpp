// What users do with their module behind the engine's back, and ranks that do
// not do the same: an error that names it, or the right thing, never damage.
#include <zero/zero.h>

#include "comm/ranks.h"
#include "engine/error_of.h"
#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

TEST(PastTheEngine, AConvertedModuleIsNamedAndStaysWhole) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Linear>(40, 30);
    {
      const torch::NoGradGuard no_grad;
      net->weight.copy_(random_floats({30, 40}, 1));
    }
    const at::Tensor before = net->weight.detach().clone();
    {
      Engine engine(world, net.ptr(), plain_config(setting));
      net->to(torch::kBFloat16);
      const std::string text = error_of([&] { engine.step(); });
      EXPECT_TRUE(has(text, "'weight' was replaced or moved")) << text;
      world.barrier();
    }
    EXPECT_EQ(net->weight.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(torch::equal(net->weight, before.to(torch::kBFloat16)));
  });
}

TEST(PastTheEngine, NewDataOfTheUsersIsNotTouched) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Linear>(40, 30);
    {
      Engine engine(world, net.ptr(), plain_config(setting));
      net->weight.set_data(torch::full({30, 40}, 7.0F));
      net->bias.set_data(torch::full({3}, 5.0F));
      const std::string text = error_of([&] { engine.step(); });
      EXPECT_TRUE(has(text, "'bias' was replaced or moved")) << text;
      world.barrier();
    }
    EXPECT_TRUE(torch::equal(net->weight, torch::full({30, 40}, 7.0F)));
    EXPECT_TRUE(torch::equal(net->bias, torch::full({3}, 5.0F)));
  });
}

TEST(PastTheEngine, AParameterThatIsNewInTheModuleIsNamed) {
  run_threads(2, [&](World world) {
    torch::nn::Sequential net(build_with<torch::nn::Linear>(4, 4));
    Engine engine(world, net.ptr(), plain_config({1, true}));
    net->push_back(build_with<torch::nn::Linear>(4, 2));
    const std::string text = error_of([&] { engine.step(); });
    EXPECT_TRUE(has(text, "'1.weight' is new")) << text;
  });
}

struct WithBufferImpl : torch::nn::Module {
  explicit WithBufferImpl(const at::Tensor& value) {
    weight = register_parameter("weight", torch::ones({3}));
    kept = register_buffer("kept", value);
  }
  at::Tensor weight, kept;
};
TORCH_MODULE(WithBuffer);

TEST(PastTheEngine, BuffersThatDifferOrChangeTheirSizeAreNamed) {
  run_threads(2, [&](World world) {
    WithBuffer different(torch::ones({world.rank() + 3}));
    const std::string at_start = error_of([&] {
      const Engine engine(world, different.ptr(), plain_config({1, true}));
    });
    EXPECT_TRUE(
        has(at_start, world.rank() == 0 ? "rank 1 has" : "kept float [4]"))
        << at_start;

    WithBuffer growing(torch::ones({3}));
    Engine engine(world, growing.ptr(), plain_config({1, true}));
    growing->kept.resize_({5000});
    const std::string later = error_of([&] { engine.step(); });
    EXPECT_TRUE(has(later, "buffer 'kept' has sizes [5000]")) << later;
  });
}

TEST(PastTheEngine, BuffersThatCannotBeWrittenAsUsualAreNoTrouble) {
  run_threads(2, [&](World world) {
    WithBuffer expanded(torch::ones({1}).expand({4, 4}));
    Engine first(world, expanded.ptr(), plain_config({1, true}));
    first.step();
    at::Tensor made_in_it;
    {
      const c10::InferenceMode inference;
      made_in_it = torch::full({3}, static_cast<float>(world.rank()));
    }
    WithBuffer inferred(made_in_it);
    Engine second(world, inferred.ptr(), plain_config({1, true}));
    EXPECT_TRUE(torch::equal(inferred->kept, torch::zeros({3})));
  });
}

TEST(PastTheEngine, ConfigurationsThatDifferAreNamed) {
  const std::vector<std::function<void(Config&)>> changes{
      [](Config& config) { config.zero_optimization.stage = 2; },
      [](Config& config) { config.libzero.shared_memory = false; },
      [](Config& config) { config.optimizer.lr = 0.25; },
      [](Config& config) { config.gradient_clipping = 3; },
      [](Config& config) { config.zero_optimization.reduce_bucket_size = 7; }};
  for (const auto& change : changes) {
    run_threads(2, [&](World world) {
      auto net = build_with<torch::nn::Linear>(4, 4);
      Config config = plain_config({1, true});
      if (world.rank() == 1) {
        change(config);
      }
      const std::string text =
          error_of([&] { const Engine engine(world, net.ptr(), config); });
      EXPECT_TRUE(has(text, "different modules or configurations")) << text;
    });
  }
}

TEST(PastTheEngine, WhatRanksWriteMayComeInAnyOrder) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Linear>(4, 3);
    Engine engine(world, net.ptr(), plain_config(setting));
    std::vector<at::Tensor> list{net->weight, net->bias, net->weight};
    if (world.rank() == 1) {
      list = {net->bias, net->weight};
    }
    {
      const auto guard = engine.gather(list, Access::write);
      const torch::NoGradGuard no_grad;
      net->weight.fill_(world.rank() + 2);
      net->bias.fill_(world.rank() + 4);
    }
    const auto guard = engine.gather(*net);
    EXPECT_TRUE(torch::equal(net->weight, torch::full({3, 4}, 2.0F)));
    EXPECT_TRUE(torch::equal(net->bias, torch::full({3}, 4.0F)));
  });
  run_threads(2, [&](World world) {
    auto net = build_with<torch::nn::Linear>(4, 3);
    Engine engine(world, net.ptr(), plain_config({3, false}));
    const auto& own = world.rank() == 0 ? net->weight : net->bias;
    const std::string text = error_of(
        [&] { const auto guard = engine.gather({own}, Access::write); });
    EXPECT_TRUE(has(text, "want to write different parameters")) << text;
  });
}

struct FailingOptimizer : Optimizer {
  explicit FailingOptimizer(bool will_fail) : fails(will_fail) {}
  int num_states() const override {
    return 0;
  }
  void update(const Slice& /*slice*/) override {
    if (fails) {
      throw std::runtime_error("out of ideas");
    }
  }
  bool fails;
};

TEST(PastTheEngine, AnOptimizerThatFailsOnOneRankFailsOnAll) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Linear>(4, 3);
    Engine engine(
        world,
        net.ptr(),
        plain_config(setting),
        std::make_shared<FailingOptimizer>(world.rank() == 1));
    engine.backward(net(torch::ones({1, 4})).sum());
    for (int again = 0; again < 2; ++again) {
      const std::string text = error_of([&] { engine.step(); });
      const char* expected =
          world.rank() == 1 ? "out of ideas" : "the optimizer failed on rank 1";
      EXPECT_TRUE(has(text, expected)) << text;
    }
  });
}

// As torch registers them, without anything that autograd needs.
TEST(PastTheEngine, WhatWasNeverToBeTrainedIsFrozen) {
  struct Scaled : torch::nn::Module {
    Scaled() {
      scale = register_parameter("scale", torch::full({5}, 3.0), false);
      order = register_parameter("order", torch::arange(5), false);
      weight = register_parameter("weight", torch::ones({5}));
    }
    at::Tensor forward() const {
      return (scale * weight).index_select(0, order).sum();
    }
    at::Tensor scale, order, weight;
  };
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = std::make_shared<Scaled>();
    Engine engine(world, net, plain_config(setting));
    engine.backward(net->forward());
    EXPECT_TRUE(engine.step().updated);
    const auto guard = engine.gather(*net);
    EXPECT_TRUE(torch::equal(net->scale, torch::full({5}, 3.0)));
    EXPECT_TRUE(torch::equal(net->weight, torch::full({5}, -0.5)));
  });
}

TEST(PastTheEngine, StridesThatDifferAreNamed) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Linear>(6, 4);
    if (world.rank() == 1) {
      net->weight.set_data(net->weight.detach().t().contiguous().t());
    }
    const std::string text = error_of(
        [&] { const Engine engine(world, net.ptr(), plain_config(setting)); });
    EXPECT_TRUE(has(text, "different modules")) << text;
    EXPECT_TRUE(
        has(text, world.rank() == 0 ? "rank 1 has" : "with strides [1, 4]"))
        << text;
  });
}

// One rank refuses, and still takes part in the update.
TEST(PastTheEngine, ARankThatRefusesStaysInStep) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Embedding>(
        torch::nn::EmbeddingOptions(20, 6).sparse(world.rank() == 0));
    Engine engine(world, net.ptr(), plain_config(setting));
    const auto words = torch::ones({7}, torch::kLong);
    for (int step = 0; step < 3; ++step) {
      const std::string text = error_of([&] {
        net(words).sum().backward(); // past the engine
        engine.step();
      });
      if (has(text, "layout Sparse") && engine.global_step() == step) {
        engine.step(); // it came before the step
      }
      EXPECT_EQ(engine.global_step(), step + 1) << text;
    }
  });
}

TEST(PastTheEngine, SparseGradientsAreRefusedByName) {
  at_every_stage(2, [&](World world, const Setting& setting) {
    auto net = build_with<torch::nn::Embedding>(
        torch::nn::EmbeddingOptions(20, 6).sparse(true));
    Engine engine(world, net.ptr(), plain_config(setting));
    const auto words = torch::ones({7}, torch::kLong);
    const std::string text =
        error_of([&] { engine.backward(net(words).sum()); });
    EXPECT_TRUE(has(text, "'weight' got a gradient of layout Sparse")) << text;
    EXPECT_TRUE(has(text, "sparse(false)")) << text;
    world.barrier();
    // Also by a backward of the user's own.
    const std::string late = error_of([&] {
      net(words).sum().backward();
      engine.step();
    });
    EXPECT_TRUE(has(late, "'weight' got a gradient of layout Sparse")) << late;
    world.barrier();
    // Training goes on.
    net->options.sparse(false);
    engine.zero_grad();
    engine.backward(net(words).sum());
    EXPECT_TRUE(engine.step().updated);
  });
}

} // namespace
} // namespace zero::test

// What FSDP2 tests of training, where no other test of ours does.
// docs/upstream_cases.md has all cases, by the upstream tests' names.
#include <zero/zero.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <regex>

#include "engine/upstream.h"
#include "launch/job.h"

namespace zero::test {
namespace {

TEST(UpstreamCases, OddShapesOnEightRanks) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {16, 15, 8}, {7, 15, 3}, {16, 17, 8}}) {
    const auto curve =
        train_plain(mlp_model(sizes), adam_config({0, true}), 8, 10);
    at_every_stage(8, [&](World world, const Setting& setting) {
      expect_losses(world, mlp_model(sizes), adam_config(setting), curve);
    });
  }
}

TEST(UpstreamCases, ARankThatIsAloneReceivesNothing) {
  at_every_stage(1, [](World world, const Setting& setting) {
    auto net = make_mlp({7, 15, 3});
    Engine engine(world, net.ptr(), plain_config(setting));
    engine.reset_traffic();
    for (int step = 0; step < 3; ++step) {
      engine.backward(net->forward(torch::ones({2, 7})).sum());
      engine.step();
    }
    const auto traffic = engine.traffic();
    EXPECT_EQ(traffic.intra_node, 0);
    EXPECT_EQ(traffic.inter_node, 0);
    EXPECT_EQ(traffic.control, 0);
  });
}

struct TiedImpl : torch::nn::Module {
  static constexpr int64_t kRows = 4 * 4 + 1; // on 4 ranks
  TiedImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(kRows, 16));
    output = register_parameter("output", embedding->weight);
  }
  at::Tensor forward(const at::Tensor& ids) {
    return torch::matmul(embedding(ids), output.t());
  }
  torch::nn::Embedding embedding{nullptr};
  at::Tensor output;
};
TORCH_MODULE(Tied);

TEST(UpstreamCases, EveryRowOfATiedEmbeddingLearns) {
  at_every_stage(4, [](World world, const Setting& setting) {
    auto net = build<Tied>();
    const auto before = build<Tied>()->output.detach();
    Engine engine(world, net.ptr(), adam_config(setting));
    for (int step = 0; step < 10; ++step) {
      const auto ids = random_ints(
          TiedImpl::kRows, {2, 8}, batch_seed(step, 0, world.rank()));
      engine.backward(torch::nn::functional::cross_entropy(
          net(ids).flatten(0, 1), ids.flatten()));
      engine.step();
    }
    const auto guard = engine.gather(*net);
    const auto changed = (net->output != before).any(1);
    EXPECT_TRUE(changed.all().item<bool>()) << changed;
    EXPECT_TRUE(torch::equal(net->output, net->embedding->weight));
  });
}

TEST(UpstreamCases, TwoViewsOfOneMemoryAreRefused) {
  const auto memory = torch::ones({16});
  const auto net = std::make_shared<Weights>(
      Tensors{memory.view({16}), memory.view({4, 4})});
  const auto text = error_of([&] {
    const Engine engine(init(), net, plain_config({2, true}));
  });
  EXPECT_TRUE(has(text, "'weight1' shares memory with 'weight0'")) << text;
}

TEST(UpstreamCases, ParametersThatOverlapAreRefused) {
  const auto memory = torch::arange(24, torch::kFloat);
  const auto net = std::make_shared<Weights>(
      Tensors{memory.narrow(0, 8, 16), memory.narrow(0, 0, 9)});
  const auto text = error_of([&] {
    const Engine engine(init(), net, plain_config({2, true}));
  });
  EXPECT_TRUE(has(text, "'weight0' shares memory with 'weight1'")) << text;
}

TEST(UpstreamCases, WhatIsGatheredIsTheBudgetAndWhatIsInUse) {
  constexpr int64_t kLayerBytes = 4 * (32 * 32 + 32);
  run_threads(2, [&](World world) {
    for (const int64_t layers : {0, 1, 2, 4}) {
      auto net = make_mlp({32, 32, 32, 32, 32, 32, 32});
      Config config = adam_config({3, false});
      config.libzero.gather_budget.bytes = layers * kLayerBytes;
      Engine engine(world, net.ptr(), config);
      for (int step = 0; step < 4; ++step) {
        engine.backward(net->forward(torch::ones({2, 32})).square().mean());
        engine.step();
      }
      const auto memory = engine.memory();
      EXPECT_GE(memory.gathered_peak, kLayerBytes) << layers;
      EXPECT_LE(memory.gathered_peak, (layers + 1) * kLayerBytes) << layers;
      EXPECT_LE(memory.gathered, layers * kLayerBytes) << layers;
      EXPECT_EQ(
          memory.parameters + memory.gradients + memory.optimizer,
          4 * 6 * kLayerBytes / 2);
    }
  });
}

TEST(UpstreamCases, ClippingIsThatOfTorchForEveryNorm) {
  constexpr double kLimit = 0.1;
  at_every_stage(2, [&](World world, const Setting& setting) {
    for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      auto net = make_mlp({7, 15, 3});
      auto plain = make_mlp({7, 15, 3});
      Config config = plain_config(setting);
      config.gradient_clipping = kLimit;
      config.libzero.clip_norm_type = p;
      Engine engine(world, net.ptr(), config);
      engine.reset_traffic();
      engine.backward(net->forward(random_floats({4, 7}, world.rank())).sum());
      for (int rank = 0; rank < 2; ++rank) {
        (plain->forward(random_floats({4, 7}, rank)).sum() / 2).backward();
      }
      const double norm =
          torch::nn::utils::clip_grad_norm_(plain->parameters(), kLimit, p);
      EXPECT_GT(norm, kLimit);
      EXPECT_NEAR(engine.step().grad_norm, norm, 1e-5 * norm) << p;
      EXPECT_EQ(engine.traffic().control, 16); // one exchange
      expect_updated(engine, *net, plain->parameters());
    }
  });
}

TEST(UpstreamCases, OnlyWhatIsTrainedIsReduced) {
  at_every_stage(2, [](World world, const Setting& setting) {
    auto net = make_mlp({32, 32, 32, 32});
    for (const auto& item : net->named_parameters()) {
      item.value().set_requires_grad(has(item.key(), "bias"));
    }
    Config config = plain_config(setting);
    config.libzero.gather_budget.share = 1; // nothing is gathered again
    Engine engine(world, net.ptr(), config);
    const auto loss = net->forward(torch::ones({2, 32})).sum();
    engine.reset_traffic();
    engine.backward(loss);
    EXPECT_EQ(engine.traffic().intra_node, reduced(4 * 3 * 32));
    EXPECT_TRUE(engine.step().updated);
  });
}

// Its middle layer is frozen. Autograd sees one of two calls of the last.
Model frozen_loop() {
  auto net = make_mlp({5, 5, 5, 5});
  for (auto& parameter : net[2]->parameters()) {
    parameter.set_requires_grad(false);
  }
  return {net.ptr(), [net](uint64_t seed) mutable {
            const auto layer = [&](size_t i, const at::Tensor& x) {
              return net[i]->as<torch::nn::Linear>()->forward(x);
            };
            auto x = layer(0, random_floats({8, 5}, seed));
            for (int i = 0; i < 3; ++i) {
              x = layer(2, torch::relu(layer(4, x)));
              const torch::NoGradGuard no_grad;
              x.add_(torch::relu(layer(4, x)));
            }
            return x.square().mean();
          }};
}

TEST(UpstreamCases, FrozenAndTrainedLayersAreCalledSeveralTimes) {
  const auto curve = train_plain(frozen_loop(), adam_config({0, true}), 2, 10);
  at_every_stage(2, [&](World world, const Setting& setting) {
    expect_losses(world, frozen_loop(), adam_config(setting), curve);
  });
}

// Whitespace would come between a suite and its test in a long line.
std::string all_tests(const std::filesystem::path& folder) {
  std::string text;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".cpp") {
      text += read_file(entry.path());
    }
  }
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST(UpstreamCases, EveryTestOfTheTableExists) {
  const auto tests = std::filesystem::path(__FILE__).parent_path() / "..";
  const auto sources = all_tests(tests);
  const auto table = read_file(tests / "../docs/upstream_cases.md");
  const std::regex name(R"(`([A-Z]\w+)\.([A-Z]\w+)`)");
  int count = 0;
  for (std::sregex_iterator at(table.begin(), table.end(), name), end;
       at != end;
       ++at, ++count) {
    const auto place = c10::str("(", at->str(1), ",", at->str(2), ")");
    EXPECT_TRUE(has(sources, place)) << at->str();
  }
  EXPECT_GT(count, 30);
}

} // namespace
} // namespace zero::test

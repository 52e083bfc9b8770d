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
        Config config = config_of(stage, shared);
        config.libzero.redundancy = layout.size() % 2; // in some of them
        config.libzero.consistency_check_every = 1;
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

// Under a sanitizer everything takes ten times as long, and one model's ranks
// race as those of all do.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
const std::vector<std::string> kModels{"odd"};
#else
const std::vector<std::string> kModels{"odd", "gpt", "moe", "resnet"};
#endif

INSTANTIATE_TEST_SUITE_P(
    Models,
    EngineOverHosts,
    ::testing::ValuesIn(kModels),
    [](const auto& info) { return info.param; });

int64_t sum_over_ranks(const World& world, int64_t value) {
  at::Tensor sum = torch::full({1}, value, torch::kLong);
  world.communicator().all_reduce(sum, ReduceOp::sum).wait();
  return sum.item<int64_t>();
}

int64_t largest_of(const torch::nn::Module& module) {
  int64_t largest = 0;
  for (const auto& parameter : module.parameters()) {
    largest = std::max(largest, static_cast<int64_t>(parameter.nbytes()));
  }
  return largest;
}

TEST(EngineOnHosts, ABudgetIsTheHostsAndChangesNothingButTraffic) {
  constexpr int kHosts = 2;
  constexpr int kRanks = 4;
  Config config = config_of(3, true);
  const Curve expected = train_plain(make_model("gpt"), config, kRanks, kSteps);
  for (const int64_t budget : {0, 20'000, 60'000, 1'000'000}) {
    SCOPED_TRACE(budget);
    config.libzero.gather_budget.bytes = budget;
    run_hosts({0, 0, 1, 1}, [&](const HostRank& rank) {
      const Model model = make_model("gpt");
      Engine engine(rank.world, model.module, config);
      expect_losses_of(
          expected, train(rank.world, model, engine), /*tolerance=*/1e-5);
      // Each rank says its share. What operators use at once is always there:
      // here two units at most, on each of the ranks.
      const int64_t peak =
          sum_over_ranks(rank.world, engine.memory().gathered_peak);
      EXPECT_GT(peak, 0);
      EXPECT_LE(peak, kHosts * budget + kRanks * 2 * largest_of(*model.module));
      rank.world.barrier(); // others may still read what this one has
    });
  }
}

// As on one machine, with the number of hosts where the number of ranks is.
TEST(EngineOnHosts, MemoryAndTrafficAreWhatTheRulesSay) {
  const int64_t p = int64_t{4} * (64 * 48 + 48);
  for (const auto& layout : {std::vector{0, 1}, std::vector{0, 0, 1, 1}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const bool shared : {true, false}) {
        const int64_t ranks = static_cast<int64_t>(layout.size());
        const int64_t ranks_here = ranks / 2;
        run_hosts(layout, [&](const HostRank& rank) {
          SCOPED_TRACE(c10::str(ranks, " ranks, stage ", stage, " ", shared));
          auto net = build_with<torch::nn::Linear>(64, 48);
          Config config = config_of(stage, shared);
          config.optimizer.type = OptimizerConfig::Type::adam;
          config.zero_optimization.reduce_bucket_size = 512;
          config.libzero.gather_budget.share = 1;
          // What is fetched ahead of the next step would be counted with this
          // one.
          config.zero_optimization.stage3_prefetch_bucket_size = 0;
          Engine engine(rank.world, net.ptr(), config);
          engine.reset_traffic();
          engine.backward(net->forward(torch::ones({2, 64})).sum());
          engine.step();
          const auto memory = engine.memory();
          const int64_t parameters = stage == 3 ? p / ranks
              : stage == 0 || !shared           ? p
                                                : p / ranks_here;
          EXPECT_EQ(memory.parameters, parameters);
          EXPECT_EQ(memory.gradients, stage < 2 ? p : p / ranks);
          EXPECT_EQ(memory.optimizer, stage == 0 ? 2 * p : 2 * p / ranks);
          const int64_t between_hosts =
              sum_over_ranks(rank.world, engine.traffic().inter_node);
          if (stage < 3 || shared) {
            EXPECT_EQ(between_hosts, 2 * p); // 2 P (hosts - 1)
          } else { // every rank gathers for itself
            EXPECT_EQ(between_hosts, p + ranks * p / 2);
          }
          rank.world.barrier(); // others may still read what this one has
        });
      }
    }
  }
}

// A host keeps another one's P / hosts elements: their state and means, and at
// stage 3 the elements. What comes for it are the means; parameters do not come
// any more from the host whose copy there is.
TEST(EngineOnHosts, CopiesCostWhatTheRulesSay) {
  const int64_t p = int64_t{4} * (64 * 48 + 48);
  for (const auto& layout :
       {std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 2, 3}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const bool shared : {true, false}) {
        const int64_t ranks = static_cast<int64_t>(layout.size());
        const int64_t hosts = layout.back() + 1;
        run_hosts(layout, [&](const HostRank& rank) {
          SCOPED_TRACE(c10::str(hosts, " hosts, stage ", stage, " ", shared));
          auto net = build_with<torch::nn::Linear>(64, 48);
          Config config = config_of(stage, shared);
          config.optimizer.type = OptimizerConfig::Type::adam;
          config.zero_optimization.reduce_bucket_size = 512;
          config.libzero.gather_budget.share = 1;
          config.zero_optimization.stage3_prefetch_bucket_size = 0;
          config.libzero.redundancy = 1;
          config.libzero.consistency_check_every = 1;
          Engine engine(rank.world, net.ptr(), config);
          engine.reset_traffic();
          engine.backward(net->forward(torch::ones({2, 64})).sum());
          engine.step();
          const int64_t kept = stage == 0 ? 0 : p / ranks;
          EXPECT_EQ(engine.memory().copies, (stage == 3 ? 4 : 3) * kept);
          EXPECT_EQ(engine.traffic().copies, kept);
          const int64_t between_hosts =
              sum_over_ranks(rank.world, engine.traffic().inter_node);
          // Gradients, or means of them; then parameters to the others.
          const int64_t readers = stage < 3 || shared ? hosts : ranks;
          const int64_t gathered = stage == 0
              ? (hosts - 1) * p
              : p + readers * (hosts - 2) * p / hosts;
          EXPECT_EQ(between_hosts, (hosts - 1) * p + gathered);
          rank.world.barrier(); // others may still read what this one has
        });
      }
    }
  }
}

TEST(EngineOnHosts, AGuardSeesWhatUpdatesAndOtherRanksWrite) {
  run_hosts({0, 0, 1, 1}, [&](const HostRank& rank) {
    const torch::NoGradGuard no_grad;
    const Model model = make_model("odd");
    Config config = config_of(3, true);
    config.libzero.gather_budget.bytes = 0;
    Engine engine(rank.world, model.module, config);
    const auto parameters = model.module->parameters();
    const auto check = [&](const std::vector<at::Tensor>& expected) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(torch::equal(parameters[i], expected[i])) << i;
      }
      rank.world.barrier();
    };
    std::vector<at::Tensor> written;
    {
      const auto guard = engine.gather(*model.module, Access::write);
      for (const auto& parameter : parameters) {
        written.push_back(torch::full_like(parameter, 0.25));
        parameter.fill_(rank.world.rank() == 0 ? 0.25 : -1);
      }
    }
    {
      const auto guard = engine.gather(*model.module);
      check(written);
      {
        const torch::AutoGradMode with_gradients(true);
        engine.backward(model.loss(batch_seed(0, 0, rank.world.rank())));
        engine.step();
      }
      std::vector<at::Tensor> updated;
      for (const auto& parameter : parameters) {
        at::Tensor of_rank_0 = parameter.contiguous().clone();
        if (of_rank_0.numel() > 0) {
          rank.world.communicator().broadcast(of_rank_0, 0).wait();
        }
        updated.push_back(of_rank_0);
      }
      check(updated);
      bool any_changed = false;
      for (size_t i = 0; i < parameters.size(); ++i) {
        any_changed = any_changed || !torch::equal(updated[i], written[i]);
      }
      EXPECT_TRUE(any_changed);
    }
  });
}

TEST(EngineOnHosts, WhatIsNotHeldCannotBeRead) {
  run_hosts({0, 0, 1, 1}, [&](const HostRank& rank) {
    auto net = build_with<torch::nn::Linear>(64, 48);
    Engine engine(rank.world, net.ptr(), config_of(3, true));
    net->forward(torch::ones({2, 64})); // another rank could drop it now
    const std::string error =
        error_of([&] { net->weight.const_data_ptr<float>(); });
    EXPECT_NE(error.find("'weight' is partitioned"), std::string::npos)
        << error;
    rank.world.barrier();
  });
}

} // namespace
} // namespace zero::test

// Parameters that are frozen when the engine is made, and trained later.
#include <zero/zero.h>

#include <set>

#include "comm/ranks.h"
#include "comm/run_hosts.h"
#include "engine/models.h"
#include "engine/oracle.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

constexpr int kThawSteps = 6;

// From which micro-batch on parameters are trained, by name.
using Plan = std::map<std::string, int>;

void follow(const Plan& plan, int64_t batch, torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) {
    const auto found = plan.find(item.key());
    if (found != plan.end()) {
      item.value().set_requires_grad(batch >= found->second);
    }
  }
}

at::Tensor loss_of(OddNet& net, int step, int micro, int rank) {
  const auto x = random_floats({4, 7}, batch_seed(step, micro, rank));
  return net(x).square().mean();
}

// What plain libtorch makes of it.
std::vector<at::Tensor> train_plain_with(
    const Plan& plan,
    const Config& config,
    int num_ranks) {
  auto net = build<OddNet>();
  const auto optimizer =
      make_torch_optimizer(net->parameters(), config.optimizer);
  const auto accumulation =
      static_cast<int>(config.batch_sizes(num_ranks).accumulation);
  for (int step = 0; step < kThawSteps; ++step) {
    optimizer->zero_grad();
    for (int micro = 0; micro < accumulation; ++micro) {
      follow(plan, step * accumulation + micro, *net);
      for (int rank = 0; rank < num_ranks; ++rank) {
        const auto loss = loss_of(net, step, micro, rank);
        if (loss.requires_grad()) {
          (loss / accumulation / num_ranks).backward();
        }
      }
    }
    optimizer->step();
  }
  std::vector<at::Tensor> values;
  for (const auto& parameter : net->parameters()) {
    values.push_back(parameter.detach().clone());
  }
  return values;
}

void expect_values(
    Engine& engine,
    torch::nn::Module& module,
    const std::vector<at::Tensor>& expected) {
  const auto guard = engine.gather(module);
  size_t number = 0;
  for (const auto& item : module.named_parameters()) {
    EXPECT_TRUE(torch::allclose(
        item.value(), expected[number], /*rtol=*/1e-5, /*atol=*/1e-6))
        << item.key();
    ++number;
  }
}

void train(World world, const Plan& plan, const Config& config) {
  const auto expected = train_plain_with(plan, config, world.size());
  const auto accumulation = config.batch_sizes(world.size()).accumulation;
  auto net = build<OddNet>();
  follow(plan, 0, *net);
  Engine engine(world, net.ptr(), config);
  for (int step = 0; step < kThawSteps; ++step) {
    engine.run([&](int64_t micro) {
      follow(plan, step * accumulation + micro, *net);
      const auto loss =
          loss_of(net, step, static_cast<int>(micro), world.rank());
      // Without a graph there would be no backward.
      return loss.requires_grad() ? loss
                                  : torch::zeros({}).set_requires_grad(true);
    });
  }
  expect_values(engine, *net, expected);
}

Plan plan_for_all(const std::function<int(int number)>& from) {
  Plan plan;
  auto net = build<OddNet>();
  int number = 0;
  for (const auto& item : net->named_parameters()) {
    plan[item.key()] = from(number++);
  }
  return plan;
}

TEST(Thaw, LayersOneAfterAnotherAsInTorch) {
  const Plan plan = plan_for_all([](int number) { return number; });
  for (const auto& setting : all_settings()) {
    for (const int num_ranks : {1, 2, 3}) {
      SCOPED_TRACE(c10::str(setting, ", ", num_ranks, " ranks"));
      run_threads(num_ranks, [&](World world) {
        train(world, plan, adam_config(setting));
      });
    }
  }
}

// A guard that lives on holds what moves.
TEST(Thaw, OverHostsWhileAGuardReads) {
  const Plan plan = plan_for_all([](int number) { return number; });
  run_hosts({0, 0, 1, 1}, [&](const HostRank& rank) {
    auto net = build<OddNet>();
    const auto weight = net->first->weight;
    follow(plan, 0, *net);
    Engine engine(rank.world, net.ptr(), adam_config({3, true}));
    const auto guard = engine.gather({weight});
    for (int step = 0; step < kThawSteps; ++step) {
      follow(plan, step, *net);
      const auto loss = loss_of(net, step, 0, rank.world.rank());
      if (loss.requires_grad()) {
        engine.backward(loss);
      }
      engine.step();
    }
    const auto expected =
        train_plain_with(plan, adam_config({3, true}), rank.world.size());
    expect_values(engine, *net, expected);
    rank.world.barrier(); // others may still read what this one has
  });
}

TEST(Thaw, NothingIsTrainedAtFirst) {
  const Plan plan = plan_for_all([](int) { return 2; });
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(
        2, [&](World world) { train(world, plan, adam_config(setting)); });
  }
}

TEST(Thaw, InTheMidstOfAccumulation) {
  const Plan plan = plan_for_all([](int number) { return number; });
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      Config config = adam_config(setting);
      config.train_micro_batch_size_per_gpu = 4;
      config.gradient_accumulation_steps = 3;
      train(world, plan, config);
    });
  }
}

// One rank alone trains it: the others' gradients are zero.
TEST(Thaw, OnOneRankIsOnAll) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(3, [&](World world) {
      auto net = build<OddNet>();
      auto& weight = net->first->weight;
      weight.set_requires_grad(false);
      Engine engine(world, net.ptr(), plain_config(setting));
      const auto before = [&] {
        const auto guard = engine.gather(*net);
        return weight.detach().clone();
      }();
      weight.set_requires_grad(world.rank() == 1);
      engine.backward(net(torch::ones({2, 7})).sum());
      const auto mine =
          world.rank() == 1 ? weight.grad().clone() : torch::zeros_like(before);
      engine.step();
      at::Tensor sum = mine.clone();
      world.communicator().all_reduce(sum).wait();
      const auto guard = engine.gather(*net);
      EXPECT_TRUE(torch::allclose(weight, before - 0.5 * sum / 3));
    });
  }
}

TEST(Thaw, MemoryIsThatOfAnEngineMadeAfterwards) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      const auto account = [&](bool late) {
        auto net = build<OddNet>();
        net->first->weight.set_requires_grad(!late);
        Engine engine(world, net.ptr(), adam_config(setting));
        net->first->weight.set_requires_grad(true);
        engine.backward(net(torch::ones({2, 7})).sum());
        engine.step();
        return engine.memory();
      };
      const auto late = account(true);
      const auto early = account(false);
      // Alignment may differ: what lies together is another.
      EXPECT_NEAR(late.optimizer, early.optimizer, 256);
      EXPECT_NEAR(late.gradients, early.gradients, 128);
      EXPECT_NEAR(late.parameters, early.parameters, 128);
    });
  }
}

} // namespace
} // namespace zero::test

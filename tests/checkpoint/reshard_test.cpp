// What was saved goes on with any number of ranks, at any stage.
#include <zero/zero.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/training.h"
#include "comm/run_hosts.h"
#include "launch/job.h"

namespace zero::test {
namespace {

constexpr int kSavedAt = 3;
constexpr int kSteps = 6;

struct Training {
  std::vector<double> losses;
  std::vector<at::Tensor> values; // at the end
};

// Trains from the checkpoint, or from the beginning, to the end.
Training train_on(
    const World& world,
    const std::string& model_name,
    const Setting& setting,
    const std::string& from,
    const std::string& save_to) {
  const Model model = make_model(model_name);
  Engine engine(world, model.module, training_config(setting, world.size()));
  Training run;
  if (!from.empty()) {
    const auto loaded = engine.load(from);
    EXPECT_EQ(loaded.step, kSavedAt);
  }
  while (engine.global_step() < kSteps) {
    run.losses.push_back(train_step(world, model, engine));
    if (engine.global_step() == kSavedAt && !save_to.empty()) {
      engine.save(save_to);
    }
  }
  run.values = values_of(engine, *model.module);
  world.barrier(); // others may still read what this one has
  return run;
}

Training train_with(
    int num_ranks,
    const std::string& model,
    const Setting& setting,
    const std::string& from,
    const std::string& save_to = "") {
  Training run;
  run_threads(num_ranks, [&](World world) {
    auto own = train_on(world, model, setting, from, save_to);
    if (world.rank() == 0) {
      run = std::move(own);
    }
  });
  return run;
}

void expect_same_losses(const Training& expected, const Training& run) {
  ASSERT_EQ(run.losses.size(), static_cast<size_t>(kSteps - kSavedAt));
  for (size_t i = 0; i < run.losses.size(); ++i) {
    const double reference = expected.losses[i + kSavedAt];
    EXPECT_NEAR(run.losses[i], reference, 1e-5 * std::abs(reference)) << i;
  }
}

void expect_identical(const Training& expected, const Training& run) {
  for (size_t i = 0; i < run.losses.size(); ++i) {
    EXPECT_EQ(run.losses[i], expected.losses[i + kSavedAt]) << i;
  }
  ASSERT_EQ(run.values.size(), expected.values.size());
  for (size_t i = 0; i < run.values.size(); ++i) {
    EXPECT_TRUE(torch::equal(run.values[i], expected.values[i])) << i;
  }
}

// Under a sanitizer everything takes ten times as long.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
const std::vector<int> kRanks{1, 3};
const std::vector<std::string> kModels{"odd"};
#else
const std::vector<int> kRanks{1, 2, 3, 4};
const std::vector<std::string> kModels{"odd", "gpt", "moe"};
#endif

class Reshard : public testing::TestWithParam<std::string> {};

TEST_P(Reshard, AnyNumberOfRanksAndAnyStageGoOn) {
  const std::string& model = GetParam();
  for (const auto& setting : all_settings()) {
    for (const int saved_by : kRanks) {
      const TemporaryFolder folder;
      const Training whole =
          train_with(saved_by, model, setting, "", folder.path());
      for (const int loaded_by : kRanks) {
        SCOPED_TRACE(
            c10::str(setting, ", ", saved_by, " ranks, loaded by ", loaded_by));
        const Training run =
            train_with(loaded_by, model, setting, folder.path());
        expect_same_losses(whole, run);
        if (loaded_by == saved_by) {
          expect_identical(whole, run);
        }
        // Another stage each time.
        const auto& settings = all_settings();
        const auto other =
            static_cast<size_t>(setting.stage + 2 * saved_by + 3 * loaded_by);
        expect_same_losses(
            whole,
            train_with(
                loaded_by,
                model,
                settings[other % settings.size()],
                folder.path()));
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    Reshard,
    ::testing::ValuesIn(kModels),
    [](const auto& info) { return info.param; });

TEST(ReshardOverHosts, OneHostAndSeveralGoOnWithEachOthers) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const TemporaryFolder folder;
    Training whole;
    run_hosts({0, 0, 1, 1}, [&](const HostRank& rank) {
      auto own = train_on(rank.world, "odd", setting, "", folder.path());
      if (rank.world.rank() == 0) {
        whole = std::move(own);
      }
    });
    expect_same_losses(whole, train_with(3, "odd", setting, folder.path()));
    run_hosts({0, 1, 1}, [&](const HostRank& rank) {
      const Training run =
          train_on(rank.world, "odd", setting, folder.path(), "");
      expect_same_losses(whole, run);
    });
  }
}

// BatchNorm's statistics are those of rank 0, and are saved with it.
TEST(ReshardOf, BuffersAndSchedulesGoOn) {
  const TemporaryFolder folder;
  const auto config_of = [](int num_ranks) {
    Config config = training_config({2, true}, num_ranks);
    config.scheduler.type = SchedulerConfig::Type::warmup_lr;
    config.scheduler.warmup_max_lr = 0.01;
    config.scheduler.warmup_num_steps = 5;
    return config;
  };
  std::vector<double> rates;
  Training whole;
  run_threads(2, [&](World world) {
    const Model model = make_model("resnet");
    Engine engine(world, model.module, config_of(2));
    Training run;
    for (int step = 0; step < kSteps; ++step) {
      run.losses.push_back(train_step(world, model, engine));
      if (step + 1 == kSavedAt) {
        engine.save(folder.path());
      }
      if (world.rank() == 0) {
        rates.push_back(engine.lr());
      }
    }
    run.values = values_of(engine, *model.module);
    if (world.rank() == 0) {
      whole = std::move(run);
    }
    world.barrier();
  });
  run_threads(2, [&](World world) {
    const Model model = make_model("resnet");
    Engine engine(world, model.module, config_of(2));
    engine.load(folder.path());
    Training run;
    EXPECT_EQ(engine.lr(), rates[kSavedAt - 1]);
    while (engine.global_step() < kSteps) {
      run.losses.push_back(train_step(world, model, engine));
    }
    run.values = values_of(engine, *model.module);
    expect_identical(whole, run);
    world.barrier();
  });
}

// Also what draws random numbers goes on bit by bit.
TEST(ReshardOf, RandomNumbersGoOn) {
  const TemporaryFolder folder;
  run_threads(1, [&](World world) {
    auto net =
        torch::nn::Sequential(torch::nn::Linear(8, 8), torch::nn::Dropout(0.5));
    Engine engine(world, net.ptr(), training_config({3, true}, 12));
    const auto step = [&] {
      const auto loss = net->forward(torch::ones({4, 8})).sum();
      engine.backward(loss);
      engine.step();
      return loss.item<double>();
    };
    step();
    engine.save(folder.path());
    const std::vector<double> expected{step(), step(), step()};
    engine.load(folder.path());
    EXPECT_EQ(engine.global_step(), 1);
    EXPECT_EQ((std::vector<double>{step(), step(), step()}), expected);
  });
}

} // namespace
} // namespace zero::test

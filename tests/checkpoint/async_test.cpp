// Checkpoints that are written while training goes on.
#include <zero/zero.h>

#include <memory>

#include "base/failpoint.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/training.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

void expect_equal(
    const std::vector<at::Tensor>& found,
    const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
  }
}

TEST(SaveAsync, IsOfTheStepItWasCalledAfter) {
  at_every_stage(3, [](World world, const Setting& setting) {
    static std::unique_ptr<TemporaryFolder> folder;
    if (world.rank() == 0) {
      folder = std::make_unique<TemporaryFolder>();
    }
    world.barrier();
    const std::string path = folder->path();
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config(setting, world.size()));
    std::vector<std::vector<at::Tensor>> expected;
    std::vector<double> losses;
    for (int step = 0; step < 4; ++step) {
      losses.push_back(train_step(world, model, engine));
      expected.push_back(values_of(engine, *model.module));
      const auto handle = engine.save_async(path, {.keep = 0});
      if (step == 3) {
        EXPECT_EQ(handle.wait(), path + "/save-000004-step-4");
        EXPECT_TRUE(handle.done());
      }
    }
    for (int step = 1; step <= 4; ++step) {
      engine.load(
          path + "/save-00000" + std::to_string(step) + "-step-" +
          std::to_string(step));
      expect_equal(
          values_of(engine, *model.module),
          expected[static_cast<size_t>(step - 1)]);
      world.barrier();
    }
    // The optimizer's state, too.
    engine.load(path + "/save-000002-step-2");
    EXPECT_EQ(train_step(world, model, engine), losses[2]);
    EXPECT_EQ(train_step(world, model, engine), losses[3]);
    world.barrier();
  });
}

TEST(SaveAsync, TheEndOfTheEngineWaitsForIt) {
  const TemporaryFolder folder;
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({3, true}, 2));
    train_step(world, model, engine);
    engine.save_async(folder.path());
  });
  EXPECT_EQ(checkpoint::find_checkpoints(folder.path()).size(), 1);
}

TEST(SaveAsync, ARankWithoutMemoryForTheCopyIsToldOnEveryRank) {
  const TemporaryFolder folder;
  base::set_failpoints("save.copy:enospc@1"); // one of the two
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({3, true}, 2));
    const auto handle = engine.save_async(folder.path());
    train_step(world, model, engine);
    EXPECT_NE(error_of([&] { handle.wait(); }), "");
    EXPECT_NE(engine.save_async(folder.path()).wait(), "");
  });
  base::set_failpoints("");
  EXPECT_EQ(checkpoint::find_checkpoints(folder.path()).size(), 1);
}

TEST(SaveAsync, WhatFailsIsToldOnEveryRankAndTrainingGoesOn) {
  const TemporaryFolder folder;
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({3, true}, 2));
    const auto handle = engine.save_async("/proc/no/such/folder");
    train_step(world, model, engine);
    const std::string error = error_of([&] { handle.wait(); });
    EXPECT_NE(error.find("/proc/no/such/folder"), std::string::npos) << error;
    engine.save_async(folder.path()).wait();
    EXPECT_EQ(engine.load(folder.path()).step, 1);
    world.barrier();
  });
}

} // namespace
} // namespace zero::test

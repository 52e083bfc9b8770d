// What is saved is complete or not there; what is damaged is not loaded.
#include <zero/zero.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/training.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

namespace fs = std::filesystem;

Strings names_in(const fs::path& folder) {
  Strings names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

void flip_bit(const fs::path& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 4);
  file.seekp(offset);
  file.put(byte);
}

// With as many checkpoints as steps.
void make_checkpoints(
    const fs::path& folder,
    int num_steps,
    int num_ranks = 2) {
  run_threads(num_ranks, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({3, true}, num_ranks));
    for (int step = 0; step < num_steps; ++step) {
      train_step(world, model, engine);
      engine.save(folder, {.keep = 0});
    }
  });
}

// The step of the one that is loaded, or what is wrong on each rank.
struct Loading {
  int64_t step = -1;
  std::vector<std::string> errors;
};

Loading load(const fs::path& folder, int num_ranks = 2) {
  Loading result;
  result.errors.resize(static_cast<size_t>(num_ranks));
  run_threads(num_ranks, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({2, false}, num_ranks));
    LoadedCheckpoint loaded;
    loaded.step = -1;
    auto& error = result.errors[static_cast<size_t>(world.rank())];
    try {
      loaded = engine.load(folder);
      EXPECT_EQ(engine.global_step(), loaded.step);
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    if (world.rank() == 0) {
      result.step = loaded.step;
    }
    world.barrier();
  });
  return result;
}

TEST(Save, KeepsTheNewestOnes) {
  const TemporaryFolder folder;
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({1, true}, 2));
    std::string last;
    for (int step = 0; step < 4; ++step) {
      train_step(world, model, engine);
      last = engine.save(folder.path());
    }
    EXPECT_EQ(last, (folder.path() / "save-000004-step-4").string());
    EXPECT_EQ(
        names_in(folder.path()),
        (Strings{"save-000003-step-3", "save-000004-step-4"}));
    EXPECT_EQ(
        names_in(last),
        (Strings{
            "manifest.json",
            "rank-00000.safetensors",
            "rank-00001.safetensors"}));
    // Who goes back and trains on from there wants that training.
    EXPECT_EQ(engine.load(folder.path() / "save-000003-step-3").step, 3);
    engine.save(folder.path());
    EXPECT_EQ(
        names_in(folder.path()),
        (Strings{"save-000004-step-4", "save-000005-step-3"}));
    EXPECT_EQ(engine.load(folder.path()).step, 3);
    world.barrier();
  });
}

TEST(Save, NotesAndSamplerComeBackOnEveryRank) {
  const TemporaryFolder folder;
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({3, true}, 2));
    Sampler sampler(100, {.seed = UINT64_MAX});
    sampler.next(world, 7);
    engine.save(
        folder.path(),
        {.sampler = sampler.state(), .notes = {{"epoch", "3 \"quoted\"\n"}}});
    const auto loaded = engine.load(folder.path());
    EXPECT_EQ(loaded.notes.at("epoch"), "3 \"quoted\"\n");
    ASSERT_TRUE(loaded.sampler.has_value());
    Sampler other(100, {.seed = UINT64_MAX});
    other.restore(*loaded.sampler);
    EXPECT_EQ(other.next(world, 5), sampler.next(world, 5));
    world.barrier();
  });
}

TEST(Save, RatesThatWereSetComeBackAndOthersAreTheConfigurations) {
  const TemporaryFolder folder;
  run_threads(1, [&](World world) {
    const Model model = make_model("odd");
    Config config = training_config({3, true}, 1);
    {
      Engine engine(world, model.module, config);
      engine.save(folder.path());
    }
    config.optimizer.lr = 0.5;
    Engine engine(world, model.module, config);
    engine.load(folder.path());
    EXPECT_EQ(engine.lr(), 0.5);
    engine.set_lr(0.25);
    engine.save(folder.path());
    engine.set_lr(0.125);
    engine.load(folder.path());
    EXPECT_EQ(engine.lr(), 0.25);
  });
}

TEST(Save, OnlyBetweenRounds) {
  const TemporaryFolder folder;
  run_threads(1, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({3, true}, 1));
    engine.backward(model.loss(1));
    const std::string error = error_of([&] { engine.save(folder.path()); });
    EXPECT_NE(error.find("1 of the round's 12"), std::string::npos) << error;
    EXPECT_TRUE(names_in(folder.path()).empty());
    engine.zero_grad();
    engine.save(folder.path());
  });
}

TEST(Save, WeightsAloneBeginATrainingOfTheirOwn) {
  const TemporaryFolder folder;
  make_checkpoints(folder.path(), 2);
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    Config config = training_config({3, true}, 2);
    config.optimizer.type = OptimizerConfig::Type::sgd;
    Engine engine(world, model.module, config);
    const std::string error = error_of([&] { engine.load(folder.path()); });
    EXPECT_NE(error.find("the optimizer is SGD"), std::string::npos) << error;
    EXPECT_EQ(engine.load(folder.path(), {.weights_only = true}).step, 2);
    EXPECT_EQ(engine.global_step(), 0);
    train_step(world, model, engine);
    world.barrier();
  });
}

TEST(Save, AModuleThatDoesNotFitIsToldWhy) {
  const TemporaryFolder folder;
  make_checkpoints(folder.path(), 1);
  run_threads(2, [&](World world) {
    auto net = torch::nn::Sequential(torch::nn::Linear(3, 4));
    Engine engine(world, net.ptr(), training_config({3, true}, 2));
    const std::string error = error_of([&] { engine.load(folder.path()); });
    EXPECT_NE(
        error.find("'0.weight' is not in the checkpoint"), std::string::npos)
        << error;
    EXPECT_NE(
        error.find("'first.weight' of the checkpoint is not in the module"),
        std::string::npos)
        << error;
    engine.backward(net->forward(torch::ones({2, 3})).sum()); // it goes on
    world.barrier();
  });
}

TEST(Save, WithoutACheckpointThereIsNothingToLoad) {
  const TemporaryFolder folder;
  for (const auto& error : load(folder.path()).errors) {
    EXPECT_NE(error, "");
  }
  EXPECT_NE(
      load(folder.path() / "missing").errors[0].find("there is no checkpoint"),
      std::string::npos);
}

TEST(Save, WhatIsDamagedIsPassedOver) {
  const TemporaryFolder folder;
  make_checkpoints(folder.path(), 3);
  const fs::path newest = folder.path() / "save-000003-step-3";
  const fs::path second = folder.path() / "save-000002-step-2";
  const auto size =
      static_cast<int64_t>(fs::file_size(newest / "rank-00001.safetensors"));
  flip_bit(newest / "rank-00001.safetensors", size - 1);
  EXPECT_EQ(load(folder.path()).step, 2);
  fs::remove(newest / "manifest.json");
  EXPECT_EQ(load(folder.path()).step, 2);
  fs::remove(second / "rank-00000.safetensors");
  EXPECT_EQ(load(folder.path(), 3).step, 1);
  flip_bit(folder.path() / "save-000001-step-1" / "manifest.json", 100);
  const auto loading = load(folder.path());
  EXPECT_EQ(loading.step, -1);
  EXPECT_NE(loading.errors[0].find("its checksum is wrong"), std::string::npos)
      << loading.errors[0];
}

// Every byte of a small checkpoint, in turn: it is loaded as it was or not.
TEST(Save, NoDamageIsLoaded) {
  const TemporaryFolder folder;
  run_threads(1, [&](World world) {
    torch::nn::Linear net(3, 2);
    Engine engine(world, net.ptr());
    engine.save(folder.path());
  });
  const fs::path path = folder.path() / "save-000001-step-0";
  int64_t tried = 0;
  for (const auto& name : names_in(path)) {
    const auto size = static_cast<int64_t>(fs::file_size(path / name));
    for (int64_t offset = 0; offset<size; offset += size> 5000 ? 7 : 1) {
      flip_bit(path / name, offset);
      EXPECT_THROW(
          {
            checkpoint::CheckpointReader reader(path);
            reader.verify();
          },
          CorruptionError)
          << name << " at " << offset;
      flip_bit(path / name, offset);
      ++tried;
    }
    const std::string content = read_file(path / name);
    for (const int64_t kept : {int64_t{0}, int64_t{7}, size / 2, size - 1}) {
      fs::resize_file(path / name, static_cast<size_t>(kept));
      EXPECT_THROW(
          {
            checkpoint::CheckpointReader reader(path);
            reader.verify();
          },
          CorruptionError)
          << name << " cut to " << kept;
      std::ofstream(path / name, std::ios::binary) << content;
    }
  }
  EXPECT_GT(tried, 1000);
  checkpoint::CheckpointReader(path).verify();
}

TEST(Save, ShardsOfAnotherSaveAndLinksAreNoticed) {
  const TemporaryFolder folder;
  make_checkpoints(folder.path(), 2);
  const fs::path first = folder.path() / "save-000001-step-1";
  const fs::path second = folder.path() / "save-000002-step-2";
  const std::string name = "rank-00000.safetensors";
  fs::copy_file(first / name, second / "kept");
  fs::rename(second / name, folder.path() / "other");
  fs::rename(second / "kept", second / name);
  EXPECT_EQ(load(folder.path()).step, 1);
  fs::remove(second / name);
  fs::create_symlink(folder.path() / "other", second / name);
  const std::string error =
      error_of([&] { checkpoint::CheckpointReader reader(second); });
  EXPECT_NE(error.find("it is a link"), std::string::npos) << error;
}

TEST(Save, IfItFailsEveryRankKnowsAndGoesOn) {
  run_threads(2, [&](World world) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, training_config({3, true}, 2));
    const std::string error =
        error_of([&] { engine.save("/proc/no/such/folder"); });
    EXPECT_NE(error, "");
    train_step(world, model, engine);
    world.barrier();
  });
}

} // namespace
} // namespace zero::test

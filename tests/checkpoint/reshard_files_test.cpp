// A checkpoint that is written again, for other ranks, is the same one.
#include <zero/zero.h>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/diff.h"
#include "checkpoint/reshard.h"
#include "checkpoint/saved_example.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

namespace fs = std::filesystem;

std::string reshard_newest(
    const fs::path& from,
    const fs::path& to,
    int num_ranks) {
  checkpoint::CheckpointReader reader(
      checkpoint::find_checkpoints(from).at(0).path);
  return checkpoint::reshard(reader, to, num_ranks);
}

void expect_equal(const std::string& a, const std::string& b) {
  checkpoint::CheckpointReader reader_a(a);
  checkpoint::CheckpointReader reader_b(b);
  reader_b.verify();
  const auto result =
      checkpoint::diff(reader_a, reader_b, [](const std::string& line) {
        ADD_FAILURE() << line;
      });
  EXPECT_TRUE(result.is_equal());
  EXPECT_GT(result.num_equal, 5);
}

TEST(ReshardFiles, AnyNumberOfThemHasTheSameValues) {
  for (const std::string model : {"odd", "resnet", "moe"}) {
    const TemporaryFolder folder;
    make_checkpoints_of(model, folder.path() / "saved", 3, 2);
    const auto saved =
        checkpoint::find_checkpoints(folder.path() / "saved").at(0).path;
    for (const int ranks : {1, 2, 5, 40}) { // more than there are elements
      SCOPED_TRACE(c10::str(model, ", ", ranks));
      const std::string path =
          reshard_newest(saved, folder.path() / std::to_string(ranks), ranks);
      EXPECT_EQ(fs::path(path).filename(), "save-000001-step-2");
      EXPECT_EQ(
          checkpoint::read_manifest(path).shards.size(),
          static_cast<size_t>(ranks));
      expect_equal(saved, path);
      // And back.
      expect_equal(
          saved, reshard_newest(path, folder.path() / (path + "-back"), 3));
    }
  }
}

TEST(ReshardFiles, AnEngineGoesOnFromThem) {
  const TemporaryFolder folder;
  const fs::path saved = folder.path() / "saved";
  const fs::path again = folder.path() / "again";
  const Values values = make_checkpoints_of("odd", saved, 3, 2);
  reshard_newest(saved, again, 2);
  std::vector<double> losses(2);
  const auto load = [&](const fs::path& from, double& loss) {
    run_threads(2, [&](World world) {
      const Model model = make_model("odd");
      Engine engine(world, model.module, training_config({2, true}, 2));
      const auto loaded = engine.load(from);
      EXPECT_EQ(loaded.step, 2);
      EXPECT_EQ(loaded.sampler->position, 24);
      EXPECT_EQ(loaded.notes.at("task"), "test");
      const Values found = named_values(engine, *model.module);
      EXPECT_EQ(found.size(), values.size());
      for (const auto& [name, value] : found) {
        EXPECT_TRUE(torch::equal(value, values.at(name))) << name;
      }
      train_step(world, model, engine);
      const double own = train_step(world, model, engine);
      if (world.rank() == 0) {
        loss = own;
      }
      world.barrier();
    });
  };
  load(saved, losses[0]);
  load(again, losses[1]);
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(ReshardFiles, ACheckpointIsNoFolderForOthers) {
  const TemporaryFolder folder;
  make_checkpoints_of("odd", folder.path(), 1);
  const auto saved = checkpoint::find_checkpoints(folder.path()).at(0).path;
  const std::string error = error_of([&] { reshard_newest(saved, saved, 2); });
  EXPECT_TRUE(has(error, "is a checkpoint itself")) << error;
}

} // namespace
} // namespace zero::test

// A checkpoint becomes a folder that other programs read.
#include "checkpoint/export_folder.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/saved_example.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

namespace fs = std::filesystem;

checkpoint::CheckpointReader newest(const fs::path& folder) {
  return checkpoint::CheckpointReader(
      checkpoint::find_checkpoints(folder).at(0).path);
}

// Bit by bit, whichever files they are in.
void expect_values(const Strings& files, const Values& values) {
  size_t count = 0;
  for (const auto& file : files) {
    const checkpoint::SafetensorsReader reader(file);
    for (const auto& entry : reader.entries()) {
      ASSERT_TRUE(values.contains(entry.name)) << entry.name;
      const auto found = reader.read(entry.name);
      const auto& expected = values.at(entry.name);
      EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << entry.name;
      EXPECT_EQ(found.sizes(), expected.sizes()) << entry.name;
      EXPECT_TRUE(torch::equal(found, expected)) << entry.name;
      ++count;
    }
  }
  EXPECT_EQ(count, values.size());
}

TEST(ExportFolder, TensorsAreThoseOfTheEngine) {
  for (const std::string model : {"odd", "gpt", "resnet", "moe"}) {
    SCOPED_TRACE(model);
    const TemporaryFolder folder;
    const Values values =
        make_checkpoints_of(model, folder.path() / "saved", 3);
    auto reader = newest(folder.path() / "saved");
    const std::string out = folder.path() / "new" / "out/";
    EXPECT_EQ(
        checkpoint::export_folder(reader, out), Strings{"model.safetensors"});
    expect_values({out + "model.safetensors"}, values);
    for (const auto& entry : fs::directory_iterator(folder.path() / "new")) {
      EXPECT_EQ(entry.path().filename(), "out"); // and nothing else
    }
  }
}

TEST(ExportFolder, LargeOnesAreSeveralFilesWithAList) {
  const TemporaryFolder folder;
  const Values values =
      make_checkpoints_of("odd", folder.path() / "saved", 2, 1, {2, false});
  auto reader = newest(folder.path() / "saved");
  const fs::path out = folder.path() / "out";
  const auto names =
      checkpoint::export_folder(reader, out, {.max_file_bytes = 500});
  ASSERT_GT(names.size(), 2);
  Strings files;
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(
        names[i],
        c10::str(
            "model-0000", i + 1, "-of-0000", names.size(), ".safetensors"));
    files.push_back(out / names[i]);
    // A tensor that is larger by itself has a file of its own.
    const checkpoint::SafetensorsReader file(files.back());
    int64_t bytes = 0;
    for (const auto& entry : file.entries()) {
      bytes += static_cast<int64_t>(file.read(entry.name).nbytes());
    }
    EXPECT_TRUE(bytes <= 500 || file.entries().size() == 1) << bytes;
  }
  expect_values(files, values);

  const auto index =
      nlohmann::json::parse(read_file(out / "model.safetensors.index.json"));
  int64_t bytes = 0;
  for (const auto& [name, value] : values) {
    bytes += static_cast<int64_t>(value.nbytes());
    const std::string file = index.at("weight_map").at(name);
    EXPECT_NO_THROW(checkpoint::SafetensorsReader(out / file).read(name));
  }
  EXPECT_EQ(index.at("weight_map").size(), values.size());
  EXPECT_EQ(index.at("metadata").at("total_size"), bytes);
}

TEST(ExportFolder, FilesOfTheModelComeAlongButNotItsWeights) {
  const TemporaryFolder folder;
  const fs::path saved = folder.path() / "run" / "checkpoint";
  make_checkpoints_of("odd", saved, 1);
  const std::string path = checkpoint::find_checkpoints(saved).at(0).path;
  EXPECT_EQ(checkpoint::model_folder_of(path), "");
  const fs::path model = folder.path() / "run" / "model";
  fs::create_directories(model / "other");
  std::ofstream(model / "config.json") << "{}";
  std::ofstream(model / "vocab.json") << "{\"a\": 0}";
  std::ofstream(model / "model.safetensors") << "older";
  std::ofstream(model / "model.safetensors.index.json") << "older";
  EXPECT_EQ(checkpoint::model_folder_of(path), model.string());
  EXPECT_EQ(checkpoint::model_folder_of(path + "/"), model.string());

  checkpoint::CheckpointReader reader(path);
  const fs::path out = folder.path() / "out";
  fs::create_directory(out); // it may be there if it is empty
  checkpoint::export_folder(reader, out, {.model_folder = model});
  Strings names;
  for (const auto& entry : fs::directory_iterator(out)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  EXPECT_EQ(names, (Strings{"config.json", "model.safetensors", "vocab.json"}));
  EXPECT_EQ(read_file(out / "vocab.json"), "{\"a\": 0}");
}

TEST(ExportFolder, WhatIsThereStaysAndWhatFailsLeavesNothing) {
  const TemporaryFolder folder;
  make_checkpoints_of("odd", folder.path() / "saved", 2);
  auto reader = newest(folder.path() / "saved");
  const fs::path out = folder.path() / "to" / "out";
  fs::create_directories(out);
  std::ofstream(out / "mine") << "mine";
  std::ofstream(folder.path() / "to" / "file") << "mine";
  for (const auto& path : {out, folder.path() / "to" / "file"}) {
    const std::string error =
        error_of([&] { checkpoint::export_folder(reader, path); });
    EXPECT_TRUE(has(error, "is there already")) << error;
  }
  EXPECT_EQ(read_file(out / "mine"), "mine");

  fs::remove_all(out);
  const fs::path shard = fs::path(reader.folder()) / "rank-00001.safetensors";
  flip_bit_at(shard, static_cast<int64_t>(fs::file_size(shard)) - 5100);
  flip_bit_at(shard, static_cast<int64_t>(fs::file_size(shard)) - 6000);
  const std::string error =
      error_of([&] { checkpoint::export_folder(reader, out); });
  EXPECT_TRUE(has(error, "rank-00001.safetensors")) << error;
  for (const auto& entry : fs::directory_iterator(folder.path() / "to")) {
    EXPECT_EQ(entry.path().filename(), "file");
  }
}

} // namespace
} // namespace zero::test

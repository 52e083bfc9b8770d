#include "checkpoint/safetensors_writer.h"

#include <zero/error.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/example_file.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::checkpoint {
namespace {

using test::TemporaryFolder;

size_t num_files(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(SafetensorsWriter, WritesWhatTheFormatSays) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a.safetensors";
  write_example(path);

  const std::string bytes = test::read_file(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0);
  ASSERT_EQ(bytes.size(), 8 + length + 32);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(
      header.at("weight"),
      nlohmann::json::parse(
          R"({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]})"));
  EXPECT_EQ(
      header.at("nothing"),
      nlohmann::json::parse(
          R"({"dtype": "F16", "shape": [0, 5], "data_offsets": [24, 24]})"));
  EXPECT_EQ(
      header.at("count"),
      nlohmann::json::parse(
          R"({"dtype": "I64", "shape": [], "data_offsets": [24, 32]})"));
  EXPECT_EQ(
      std::memcmp(bytes.data() + 8 + length, kExampleWeight.data(), 24), 0);
  EXPECT_EQ(num_files(folder), 1);
}

TEST(SafetensorsWriter, WhatIsNotCommittedLeavesTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a.safetensors";
  std::ofstream(path) << "old";
  {
    SafetensorsWriter writer(path, {{"weight", at::kFloat, {1}}});
    const float one = 1;
    writer.write(&one, sizeof(one));
  }
  EXPECT_EQ(test::read_file(path), "old");
  EXPECT_EQ(num_files(folder), 1);
}

TEST(SafetensorsWriter, AFullDiskIsAnErrorThatNamesTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a.safetensors";
  // In a process of its own, which may not write files of more than a page.
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    const std::vector<float> weight(10000);
    const std::string text = test::error_of([&] {
      SafetensorsWriter writer(path, {{"weight", at::kFloat, {10000}}});
      writer.write(weight.data(), 40000);
      writer.commit();
    });
    const bool good = test::has(text, path) && test::has(text, "Fix: ");
    std::_Exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(num_files(folder), 0);
}

} // namespace
} // namespace zero::checkpoint

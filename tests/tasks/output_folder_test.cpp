#include "tasks/output_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::tasks {
namespace {

using test::error_of;
using test::has;

TEST(OutputFolder, IsMadeAndIsOneRunsAtATime) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "a" / "b";
  {
    const OutputFolder first(path, IfThereIsARun::refuse);
    EXPECT_TRUE(std::filesystem::is_directory(path));
    EXPECT_TRUE(
        has(error_of([&] {
              const OutputFolder second(path, IfThereIsARun::overwrite);
            }),
            "another run is at work"));
    EXPECT_FALSE(std::filesystem::is_empty(path)); // still locked
  }
  EXPECT_TRUE(std::filesystem::is_empty(path));
  const OutputFolder again(path, IfThereIsARun::refuse);
}

TEST(OutputFolder, ARunIsNotLostUnasked) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  std::ofstream(path + "/metrics.jsonl") << "{}";
  std::ofstream(path + "/run.json") << R"({"ended": "finished"})";
  std::ofstream(path + "/notes.txt") << "mine";
  EXPECT_TRUE(has(
      error_of([&] { const OutputFolder run(path, IfThereIsARun::refuse); }),
      "has a run already"));
  const OutputFolder run(path, IfThereIsARun::overwrite);
  EXPECT_TRUE(std::filesystem::exists(path + "/metrics.jsonl"));
  run.remove_old_run();
  EXPECT_FALSE(std::filesystem::exists(path + "/metrics.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(path + "/notes.txt"));
}

TEST(OutputFolder, WhatIsNotARunsIsNeverLost) {
  for (const char* name : {"config.json", "model", "best", "metrics.jsonl"}) {
    const test::TemporaryFolder folder;
    const std::string path = folder.path();
    std::ofstream(path + "/" + name) << "mine";
    for (const auto what_then :
         {IfThereIsARun::refuse,
          IfThereIsARun::overwrite,
          IfThereIsARun::go_on}) {
      const std::string error =
          error_of([&] { const OutputFolder run(path, what_then); });
      EXPECT_TRUE(has(error, "which is not a run's")) << error;
    }
    EXPECT_EQ(test::read_file(path + "/" + name), "mine");
  }
}

TEST(OutputFolder, APlaceThatCannotBeWrittenToIsToldOf) {
  const std::string error = error_of(
      [] { const OutputFolder run("/proc/no/such", IfThereIsARun::refuse); });
  EXPECT_TRUE(has(error, "cannot make the folder")) << error;
}

TEST(OutputFolder, NumbersThatAreTakenArePassedOver) {
  const test::TemporaryFolder folder;
  const auto old = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(next_output_folder("some/gpt.json"), "runs/gpt-1");
  std::filesystem::create_directories("runs/gpt-1");
  EXPECT_EQ(next_output_folder("gpt.json"), "runs/gpt-2");
  std::filesystem::current_path(old);
}

} // namespace
} // namespace zero::tasks

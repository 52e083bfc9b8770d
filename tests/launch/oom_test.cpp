#include "launch/oom.h"

#include <gtest/gtest.h>

#include "launch/job.h"

namespace zero::launch {
namespace {

class OomTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const auto file = folder.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  test::TemporaryFolder folder;
};

const char* const kBecauseOfTheGroup = "the kernel's OOM killer ended it";
const char* const kOnTheMachine = "OOM killer was at work on this machine";
const char* const kUnknown = "somebody sent it, or";

void expect_explanation(OomWatch& oom, const std::string& text) {
  const std::string explanation = oom.explain_kill();
  EXPECT_NE(explanation.find(text), std::string::npos) << explanation;
}

TEST_F(OomTest, AKillInTheControlGroupIsTheExplanation) {
  write("proc/self/cgroup", "0::/user/job\n");
  const std::string events = "sys/fs/cgroup/user/job/memory.events";
  write(events, "low 0\noom 3\noom_kill 3\n");
  OomWatch oom(folder.path());
  expect_explanation(oom, kUnknown);
  write(events, "low 0\noom 4\noom_kill 4\n");
  expect_explanation(oom, kBecauseOfTheGroup);
}

TEST_F(OomTest, InAContainerTheGroupIsAtTheRoot) {
  write("proc/self/cgroup", "0::/system.slice/docker-1234.scope\n");
  write("sys/fs/cgroup/memory.events", "oom_kill 0\n");
  OomWatch oom(folder.path());
  write("sys/fs/cgroup/memory.events", "oom_kill 1\n");
  expect_explanation(oom, kBecauseOfTheGroup);
}

TEST_F(OomTest, ControlGroupsOfVersion1AreUnderstood) {
  write("proc/self/cgroup", "9:cpu:/\n4:memory:/job\n0::/\n");
  const std::string control = "sys/fs/cgroup/memory/job/memory.oom_control";
  write(control, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  OomWatch oom(folder.path());
  write(control, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  expect_explanation(oom, kBecauseOfTheGroup);
}

TEST_F(OomTest, AKillElsewhereOnTheMachineIsOnlyProbable) {
  write("proc/vmstat", "pgfault 17\noom_kill 5\n");
  OomWatch oom(folder.path());
  expect_explanation(oom, kUnknown);
  write("proc/vmstat", "pgfault 18\noom_kill 6\n");
  expect_explanation(oom, kOnTheMachine);
}

TEST_F(OomTest, AKillExplainsOneEnd) {
  write("proc/self/cgroup", "0::/job\n");
  const std::string events = "sys/fs/cgroup/job/memory.events";
  write(events, "oom_kill 1\n");
  write("proc/vmstat", "oom_kill 5\n");
  OomWatch oom(folder.path());
  write(events, "oom_kill 3\n");
  write("proc/vmstat", "oom_kill 7\n");
  expect_explanation(oom, kBecauseOfTheGroup);
  expect_explanation(oom, kBecauseOfTheGroup);
  expect_explanation(oom, kUnknown);
}

TEST_F(OomTest, WithoutCountersNothingIsClaimed) {
  OomWatch oom(folder.path());
  expect_explanation(oom, kUnknown);
}

} // namespace
} // namespace zero::launch

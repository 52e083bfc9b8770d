// However a job ends, no process of it is left.
#include <gtest/gtest.h>

#include "launch/job.h"

namespace zero::test {
namespace {

// A rank with a child, a grandchild that nobody waits for, and a daemon that
// left its session and lost its parent. All of them ignore SIGTERM.
const char* const kFamily =
    "trap '' TERM HUP;"
    "sleep 1000 & "
    "(sleep 1000 & sleep 1000) & "
    "setsid sh -c 'setsid sleep 1000 & exit' & "
    "sleep 0.1; echo ready; ";

constexpr int kFamilySize = 6; // with the rank's own shell

class LeftoversTest : public testing::Test {
 protected:
  // Waits until two ranks and their families run.
  static void wait_for_families(Job& job) {
    ASSERT_TRUE(job.prints("ready", 2)) << job.err();
    ASSERT_TRUE(eventually([&] {
      // Besides them the front and the supervisor.
      return job.processes().size() >= 2 + 2 * (kFamilySize - 1);
    }));
  }
};

TEST_F(LeftoversTest, KillingTheFrontEndsAll) {
  Job job(zero_run(2, shell(std::string(kFamily) + "wait")));
  wait_for_families(job);
  job.kill(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  EXPECT_TRUE(job.nothing_left());
}

// As in the background of a script: then the supervisor ignores it too, which
// tells of the front's death otherwise.
TEST_F(LeftoversTest, KillingTheFrontWhereSigtermIsIgnoredEndsAll) {
  auto before = ::signal(SIGTERM, SIG_IGN);
  Job job(zero_run(2, {"sleep", "1000"}));
  ::signal(SIGTERM, before);
  job.supervisor();
  job.kill(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(LeftoversTest, KillingTheSupervisorEndsAll) {
  Job job(zero_run(2, shell(std::string(kFamily) + "wait")));
  wait_for_families(job);
  const pid_t supervisor = job.supervisor();
  ::kill(supervisor, SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(job.processes(), std::vector<pid_t>{});
  EXPECT_NE(
      job.err().find("(process " + std::to_string(supervisor) + ")"),
      std::string::npos)
      << job.err();
}

TEST_F(LeftoversTest, KillingTheSupervisorBeforeTheRanksRunEndsAll) {
  Job job(zero_run(64, {"sleep", "1000"}));
  ::kill(job.supervisor(), SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(job.processes(), std::vector<pid_t>{});
}

TEST_F(LeftoversTest, KillingTheFrontBeforeTheRanksRunEndsAll) {
  Job job(zero_run(64, {"sleep", "1000"}));
  job.supervisor();
  job.kill(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(LeftoversTest, AFailingRankTakesAllFamiliesAlong) {
  Job job(zero_run(
      2,
      shell(std::string(kFamily) + "[ $ZERO_RANK = 1 ] && exit 3; wait"),
      {"--grace", "0.2"}));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(job.processes(), std::vector<pid_t>{});
}

TEST_F(LeftoversTest, ASignalOfTheUserTakesAllFamiliesAlong) {
  Job job(
      zero_run(2, shell(std::string(kFamily) + "wait"), {"--grace", "0.2"}));
  wait_for_families(job);
  job.kill(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(job.processes(), std::vector<pid_t>{});
}

// The orphans hold the ends of the pipes that the launcher reads.
TEST_F(LeftoversTest, OrphansDoNotKeepAJobAliveThatEndedWell) {
  Job job(zero_run(2, shell(std::string(kFamily) + "exit 0")));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.sorted_out(), "[0] ready\n[1] ready\n");
  EXPECT_EQ(job.processes(), std::vector<pid_t>{});
}

TEST_F(LeftoversTest, AnOrphanThatIsAboutToFinishIsHeard) {
  Job job(zero_run(1, shell("(sleep 0.1; echo late) & exit 0")));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[0] late\n");
}

TEST_F(LeftoversTest, WhatWasThereBeforeTheJobIsLeftAlone) {
  Job job(shell(
      "sleep 1000 & echo other=$!=; exec \"" + zero_program() +
      "\" run -n 2 sh -c 'setsid sleep 1000 & exit 3'"));
  EXPECT_EQ(job.wait(), 3);
  const std::string out = job.out();
  const pid_t other = std::stoi(out.substr(out.find("other=") + 6));
  EXPECT_EQ(job.processes(), std::vector<pid_t>{other});
}

} // namespace
} // namespace zero::test

// What --on-loss shrink makes of a rank that fails: the others go on.
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "launch/job.h"

namespace zero::test {
namespace {

const Strings kShrink{"--on-loss", "shrink"};

// Ranks whose script may `await NAME`, until the test calls allow(NAME).
class ShrinkTest : public testing::Test {
 protected:
  Job start(
      int num_ranks,
      const std::string& script,
      const Strings& options = kShrink) {
    JobOptions with_folder;
    with_folder.set = {"MARKS=" + folder_.path().string()};
    return Job(
        zero_run(
            num_ranks,
            shell(
                "await() { while [ ! -e $MARKS/$1 ]; do sleep 0.02; done; };" +
                script),
            options),
        with_folder);
  }

  void allow(const std::string& name) const {
    std::ofstream(folder_.path() / name) << "now";
  }

  // The number behind "[rank] name=".
  static pid_t number_of(const Job& job, int rank, const std::string& name) {
    const std::string before = "[" + std::to_string(rank) + "] " + name + "=";
    EXPECT_TRUE(job.prints(before)) << job.out() << job.err();
    const std::string out = job.out();
    return std::stoi(out.substr(out.find(before) + before.size()));
  }

 private:
  TemporaryFolder folder_;
};

bool is_gone(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

TEST_F(ShrinkTest, TheOthersFinishWhenARankIsKilled) {
  Job job = start(4, "echo pid=$$=; await end; echo done");
  ASSERT_TRUE(job.prints("pid=", 4));
  const pid_t pid = number_of(job, 1, "pid");
  ::kill(pid, SIGKILL);
  // It is said while the others run.
  ASSERT_TRUE(job.complains("; the others go on, 3 of 4 ranks are left\n"))
      << job.err();
  allow("end");
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(
      job.err().find(
          "zero: rank 1 (process " + std::to_string(pid) +
          ") was killed by SIGKILL ("),
      0)
      << job.err();
  EXPECT_NE(job.err().find("OOM killer"), std::string::npos) << job.err();
  EXPECT_EQ(last_line(job.err()), job.err()); // the only one
  for (const std::string rank : {"0", "2", "3"}) {
    EXPECT_NE(job.out().find("[" + rank + "] done\n"), std::string::npos);
  }
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ShrinkTest, TheOthersFinishWhenARankFails) {
  Job job = start(
      3,
      "if [ $ZERO_RANK = 2 ]; then printf 'last words' >&2; exit 3; fi;"
      "await end");
  ASSERT_TRUE(job.complains(
      ") failed with exit code 3; the others go on, 2 of 3 ranks are left\n"))
      << job.err();
  allow("end");
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.err().find("[2] last words\nzero: rank 2 (process "), 0)
      << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ShrinkTest, TwoOfFourMayBeLost) {
  Job job = start(
      4,
      "[ $ZERO_RANK = 1 ] && kill -KILL $$;"
      "[ $ZERO_RANK = 2 ] && await second && exit 3;"
      "await end");
  ASSERT_TRUE(job.complains("3 of 4 ranks are left")) << job.err();
  allow("second");
  ASSERT_TRUE(job.complains("2 of 4 ranks are left")) << job.err();
  allow("end");
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(last_line(job.err()).find("zero: rank 2 (process "), 0)
      << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ShrinkTest, IfAllFailTheFirstIsTheCause) {
  Job job = start(
      3,
      "if [ $ZERO_RANK = 1 ]; then echo it was me; exit 5; fi;"
      "await end; exit 6");
  ASSERT_TRUE(job.complains("2 of 3 ranks are left")) << job.err();
  allow("end");
  EXPECT_EQ(job.wait(), 5) << job.err();
  EXPECT_NE(
      job.err().find(
          "zero: the last lines of rank 1:\n  it was me\nzero: rank 1 "),
      std::string::npos)
      << job.err();
  EXPECT_NE(
      last_line(job.err()).find(") failed with exit code 5; no rank is left"),
      std::string::npos)
      << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ShrinkTest, RanksThatCannotGoOnLeaveTheBlameWithTheFirst) {
  Job job(zero_run(2, failing_ranks({"lose", "stop"}), kShrink));
  EXPECT_EQ(job.wait(), 128 + SIGKILL) << job.err();
  EXPECT_NE(
      job.err().find("failed with exit code 1, after another rank was gone"),
      std::string::npos)
      << job.err();
  EXPECT_EQ(last_line(job.err()).find("zero: rank 1 "), 0) << job.err();
}

TEST_F(ShrinkTest, OneRankThatEndedWellIsEnough) {
  Job job =
      start(2, "[ $ZERO_RANK = 0 ] && echo done && exit 0; await end; exit 4");
  ASSERT_TRUE(job.prints("[0] done"));
  const pid_t supervisor = job.supervisor();
  ASSERT_TRUE(
      eventually([&] { return job.children_of(supervisor).size() == 1; }));
  allow("end");
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_NE(
      job.err().find(") failed with exit code 4; no rank is left\n"),
      std::string::npos)
      << job.err();
}

TEST_F(ShrinkTest, AnOnlyRankThatFailsEndsTheJob) {
  Job job = start(1, "echo alone; exit 7");
  EXPECT_EQ(job.wait(), 7);
  EXPECT_EQ(
      job.err().find(
          "zero: the last lines of rank 0:\n  alone\nzero: rank 0 (process "),
      0)
      << job.err();
}

struct Loss {
  const char* how;
  const char* ranks;
};

class Survivors : public testing::TestWithParam<Loss> {};

TEST_P(Survivors, ShrinkTheWorldAndGoOn) {
  const auto [how, lost] = GetParam();
  const std::string ranks = lost;
  Job job(zero_run(4, failing_ranks({"shrink", how, ranks}), kShrink));
  EXPECT_EQ(job.wait(), 0) << job.err();
  const std::string now =
      "now one of " + std::to_string(4 - ranks.size()) + "\n";
  std::string expected;
  for (const std::string rank : {"0", "1", "2", "3"}) {
    if (ranks.find(rank) == std::string::npos) {
      expected += "[" + rank + "] " + now;
    } else {
      EXPECT_NE(job.err().find("zero: rank " + rank), std::string::npos)
          << job.err();
    }
    expected += "[" + rank + "] one of 4\n";
  }
  EXPECT_EQ(job.sorted_out(), Job::sorted(expected)) << job.err();
  EXPECT_EQ(
      job.err().find("no sign of life") != std::string::npos,
      how == std::string("stop"))
      << job.err();
  EXPECT_TRUE(job.nothing_left());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Survivors,
    testing::Values(
        Loss{"kill", "0"},
        Loss{"kill", "2"},
        Loss{"exit", "1"},
        Loss{"stop", "3"},
        Loss{"kill", "12"},
        Loss{"exit", "013"}),
    [](const auto& info) {
      return std::string(info.param.how) + info.param.ranks;
    });

TEST_F(ShrinkTest, ASignalOfTheUserEndsThoseThatAreLeft) {
  Job job = start(
      3,
      "[ $ZERO_RANK = 1 ] && exit 3;"
      "trap 'echo told to end; exit 0' TERM; echo ready; await end");
  ASSERT_TRUE(job.prints("ready", 2));
  ASSERT_TRUE(job.complains("2 of 3 ranks are left")) << job.err();
  job.kill(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.err();
  EXPECT_TRUE(job.prints("told to end", 2));
  EXPECT_EQ(last_line(job.err()), "zero: the job was ended by SIGTERM\n");
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ShrinkTest, OnlyTheLostRankTakesItsChildrenAlong) {
  Job job = start(
      2,
      "trap '' TERM HUP; sleep 1000 & echo child=$!=;"
      "sh -c 'sleep 1000 & echo grandchild=$!='; echo ready;"
      "[ $ZERO_RANK = 1 ] && await loss && exit 3; await end");
  ASSERT_TRUE(job.prints("ready", 2));
  allow("loss");
  for (const std::string name : {"child", "grandchild"}) {
    const pid_t lost = number_of(job, 1, name);
    EXPECT_TRUE(eventually([&] { return is_gone(lost); })) << name;
    EXPECT_FALSE(is_gone(number_of(job, 0, name))) << name;
  }
  ASSERT_TRUE(job.complains("1 of 2 ranks is left")) << job.err();
  allow("end");
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.processes(), std::vector<pid_t>{});
}

TEST_F(ShrinkTest, WhatALostRankHadDetachedIsEndedWithTheJob) {
  Job job = start(
      2,
      "setsid sh -c 'setsid sleep 1000 & exit'; echo ready;"
      "[ $ZERO_RANK = 1 ] && exit 3; await end");
  ASSERT_TRUE(job.complains("1 of 2 ranks is left")) << job.err();
  allow("end");
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.processes(), std::vector<pid_t>{});
}

TEST_F(ShrinkTest, KillingTheFrontAfterALossEndsAll) {
  Job job = start(3, "[ $ZERO_RANK = 1 ] && exit 3; await end");
  ASSERT_TRUE(job.complains("2 of 3 ranks are left")) << job.err();
  job.kill(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  EXPECT_TRUE(job.nothing_left());
}

} // namespace
} // namespace zero::test

// What --on-loss replace makes of a rank that fails: the others go on, and a
// new process takes its place.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "launch/job.h"

namespace zero::test {
namespace {

class ReplaceTest : public testing::Test {
 protected:
  // Ranks that train until the test calls end().
  Job start(int num_ranks, const std::string& how, const std::string& lost) {
    JobOptions options;
    options.set = {"MARKS=" + folder_.path().string()};
    return Job(
        zero_run(
            num_ranks,
            failing_ranks({"train", how, lost}),
            {"--on-loss", "replace"}),
        options);
  }

  void end() const {
    std::ofstream(folder_.path() / "end") << "now";
  }
  void begin() const { // anew
    std::filesystem::remove(folder_.path() / "end");
  }

 private:
  TemporaryFolder folder_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ReplaceTest, ANewProcessTakesThePlaceOfALostOne) {
  for (const std::string lost : {"0", "1", "2"}) {
    SCOPED_TRACE(lost);
    Job job = start(3, "kill", lost);
    ASSERT_TRUE(job.complains(" is started in place of rank " + lost + "\n"))
        << job.err();
    ASSERT_TRUE(job.complains(" joined after step ")) << job.err();
    end();
    EXPECT_EQ(job.wait(), 0) << job.err();
    EXPECT_TRUE(has(job.err(), "the others go on, 2 of 3 ranks are left"));
    for (const std::string rank : {"0", "1", "2"}) {
      EXPECT_TRUE(has(job.out(), "[" + rank + "] done as one of 3\n"))
          << job.out() << job.err();
    }
    EXPECT_TRUE(job.nothing_left());
    begin();
  }
}

TEST_F(ReplaceTest, TwoAreReplaced) {
  Job job = start(3, "kill", "02");
  ASSERT_TRUE(job.complains(" is started in place of rank 0\n")) << job.err();
  ASSERT_TRUE(job.complains(" is started in place of rank 2\n")) << job.err();
  // Rank 1 says so at first, and when all are there again.
  ASSERT_TRUE(eventually([&] {
    const std::string out = job.out();
    const auto now = out.rfind("[1] step ");
    return now != out.find("[1] step ") &&
        out.find(", now one of 3\n", now) != std::string::npos;
  })) << job.out()
      << job.err();
  end();
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(has(job.out(), "[1] done as one of 3\n")) << job.out();
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ReplaceTest, ARankThatFailsOfItselfIsReplaced) {
  Job job = start(2, "exit", "1");
  ASSERT_TRUE(job.complains("failed with exit code 3")) << job.err();
  ASSERT_TRUE(job.complains(" joined after step ")) << job.err();
  end();
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(has(job.out(), "[1] done as one of 2\n")) << job.out();
}

TEST_F(ReplaceTest, WhatKeepsFailingIsGivenUp) {
  Job job = start(3, "again", "1");
  ASSERT_TRUE(job.complains("zero: rank 1 is not replaced any more: 3 "))
      << job.err();
  end();
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(
      has(job.err(),
          "failed with exit code 4 before it took part; the others go on\n"))
      << job.err();
  EXPECT_TRUE(has(job.out(), "[0] done as one of 2\n")) << job.out();
  EXPECT_TRUE(job.nothing_left());
}

// The others do not wait for it.
TEST_F(ReplaceTest, WhoComesTooLateIsEnded) {
  Job job = start(3, "late", "1");
  ASSERT_TRUE(job.complains(" is started in place of rank 1\n")) << job.err();
  ASSERT_TRUE(job.prints("now one of 2\n", 2)) << job.out();
  end();
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(has(job.out(), "[0] done as one of 2\n")) << job.out();
  EXPECT_FALSE(has(job.err(), "no rank is left")) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

// There is nobody from whom a new process could get what was trained.
TEST_F(ReplaceTest, AnOnlyRankThatIsLostEndsTheJob) {
  Job job = start(1, "kill", "0");
  EXPECT_EQ(job.wait(), 128 + SIGKILL) << job.err();
  EXPECT_TRUE(has(last_line(job.err()), "no rank is left")) << job.err();
  EXPECT_FALSE(has(job.err(), "in place of")) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ReplaceTest, ThatAllAreLostEndsTheJob) {
  Job job = start(2, "kill", "01");
  EXPECT_EQ(job.wait(), 128 + SIGKILL) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(ReplaceTest, WhatNeverBeganIsNotReplaced) {
  Job job(zero_run(2, shell("exit 5"), {"--on-loss", "replace"}));
  EXPECT_EQ(job.wait(), 5) << job.err();
  EXPECT_FALSE(has(job.err(), "in place of")) << job.err();
}

TEST_F(ReplaceTest, ASignalEndsNewcomersToo) {
  Job job = start(2, "kill", "1");
  ASSERT_TRUE(job.complains(" joined after step ")) << job.err();
  job.kill(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

} // namespace
} // namespace zero::test

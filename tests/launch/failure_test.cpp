// How a job ends when a rank fails, and whom it blames.
#include <gtest/gtest.h>

#include <csignal>

#include "launch/job.h"

namespace zero::test {
namespace {

// The lines of a text from the last one that contains `word` on.
std::string from_line_with(const std::string& text, const std::string& word) {
  const size_t at = text.rfind(word);
  const size_t begin = at == std::string::npos ? at : text.rfind('\n', at);
  return begin == std::string::npos ? text : text.substr(begin + 1);
}

TEST(Failure, TheExitCodeIsThatOfTheRankThatFailed) {
  Job job(zero_run(3, shell("[ $ZERO_RANK = 1 ] && exit 7; sleep 1000")));
  EXPECT_EQ(job.wait(), 7);
  EXPECT_NE(
      last_line(job.err()).find("zero: rank 1 (process "), std::string::npos)
      << job.err();
  EXPECT_NE(
      last_line(job.err()).find(") failed with exit code 7;"),
      std::string::npos)
      << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST(Failure, OutputThatIsLostIsNoSuccess) {
  const std::string command =
      zero_program() + " run -n 2 /bin/echo lost > /dev/full 2> /dev/null";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
}

TEST(Failure, AKilledRankGivesItsSignalAndIsNamed) {
  Job job(zero_run(2, shell("echo pid=$$=; exec sleep 1000")));
  ASSERT_TRUE(job.prints("pid=", 2));
  const std::string out = job.out();
  const size_t line = out.find("[1] pid=");
  ASSERT_NE(line, std::string::npos);
  const pid_t pid = std::stoi(out.substr(line + 8));
  ::kill(pid, SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  const std::string cause = last_line(job.err());
  EXPECT_EQ(
      cause.find(
          "zero: rank 1 (process " + std::to_string(pid) +
          ") was killed by SIGKILL ("),
      0)
      << job.err();
  EXPECT_NE(cause.find("OOM killer"), std::string::npos) << cause;
  EXPECT_TRUE(job.nothing_left());
}

TEST(Failure, ACrashGivesItsSignal) {
  Job job(
      zero_run(2, shell("[ $ZERO_RANK = 0 ] && kill -SEGV $$; sleep 1000")));
  EXPECT_EQ(job.wait(), 128 + SIGSEGV);
  EXPECT_NE(last_line(job.err()).find("SIGSEGV"), std::string::npos)
      << job.err();
}

TEST(Failure, TheReportComesLastWithTheLast20LinesOfTheRank) {
  TemporaryFolder folder;
  JobOptions options;
  options.set = {"READY=" + (folder.path() / "ready").string()};
  Job job(
      zero_run(
          2,
          shell("trap 'echo told to end >&2; exit 0' TERM;"
                "if [ $ZERO_RANK = 1 ]; then"
                "  while [ ! -e $READY ]; do sleep 0.02; done;"
                "  seq 1 29; printf 'the 30th' >&2; exit 3;"
                "fi;"
                ": >$READY; while true; do sleep 0.02; done")),
      options);
  EXPECT_EQ(job.wait(), 3);
  const std::string report =
      from_line_with(job.err(), "zero: the last lines of rank 1:");
  std::string expected = "zero: the last lines of rank 1:\n";
  for (int line = 11; line <= 29; ++line) {
    expected += "  " + std::to_string(line) + "\n";
  }
  expected += "  the 30th\n";
  EXPECT_EQ(report.find(expected + "zero: rank 1 "), 0) << job.err();
  // The other rank's last words do not come after it.
  EXPECT_EQ(report.find("told to end"), std::string::npos) << job.err();
  EXPECT_NE(job.err().find("[0] told to end\n"), std::string::npos);
}

TEST(Failure, ARankThatIgnoresSigtermIsKilledAfterTheGrace) {
  Job job(zero_run(
      2,
      shell("trap '' TERM; echo deaf;"
            "if [ $ZERO_RANK = 1 ]; then sleep 0.3; exit 4; fi;"
            "while true; do sleep 1000; done"),
      {"--grace", "0.5"}));
  EXPECT_EQ(job.wait(), 4);
  EXPECT_TRUE(job.nothing_left());
}

TEST(Failure, AStoppedRankIsEnded) {
  Job job(zero_run(
      2, shell("[ $ZERO_RANK = 0 ] && kill -STOP $$; sleep 0.3; exit 5")));
  EXPECT_EQ(job.wait(), 5);
  EXPECT_TRUE(job.nothing_left());
}

TEST(Failure, RanksThatEndWellDoNotEndTheOthers) {
  Job job(zero_run(3, shell("sleep 0.$ZERO_RANK; echo done")));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.sorted_out(), "[0] done\n[1] done\n[2] done\n");
}

TEST(Failure, AVictimIsNotBlamedThoughItEndsFirst) {
  for (const std::string victim : {"0", "1"}) {
    const std::string culprit = victim == "0" ? "1" : "0";
    Job job(zero_run(2, failing_ranks({"act", victim})));
    EXPECT_EQ(job.wait(), 9) << job.err();
    EXPECT_EQ(last_line(job.err()).find("zero: rank " + culprit + " "), 0)
        << job.err();
    EXPECT_NE(job.err().find("  it was me\n"), std::string::npos) << job.err();
  }
}

TEST(Failure, IfAllAreVictimsTheReportSaysSo) {
  Job job(zero_run(2, failing_ranks({"act", "all"})));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_NE(
      last_line(job.err()).find("because another rank was gone"),
      std::string::npos)
      << job.err();
}

TEST(Failure, ARankThatEndedBeforeInitIsNamed) {
  Job job(zero_run(2, failing_ranks({"lose", "early-exit"})));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_NE(
      last_line(job.err()).find("because rank 1 had ended with exit code 0"),
      std::string::npos)
      << job.err();
}

TEST(Failure, ARankThatReturnsTooEarlyIsNamedHoweverLongItsEndTakes) {
  for (const std::string how : {"return", "slow-return"}) {
    Job job(zero_run(2, failing_ranks({"lose", how})));
    EXPECT_EQ(job.wait(), 1);
    EXPECT_NE(
        last_line(job.err()).find("because rank 1 had ended with exit code 0"),
        std::string::npos)
        << job.err();
  }
}

TEST(Failure, AStoppedRankIsNotTakenForLackOfMemory) {
  Job job(zero_run(2, failing_ranks({"lose", "stop"})));
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  const std::string cause = last_line(job.err());
  EXPECT_EQ(cause.find("zero: rank 1 "), 0) << job.err();
  EXPECT_NE(cause.find("no sign of life"), std::string::npos) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

} // namespace
} // namespace zero::test

#include "launch/first_cause.h"

#include <gtest/gtest.h>

#include <csignal>

#include "launch/rank_output.h"

namespace zero::launch {
namespace {

constexpr int exited(int code) {
  return code << 8;
}

RankEnd end_of(int rank, int status, bool victim = false) {
  return {.rank = rank, .pid = 100 + rank, .status = status, .victim = victim};
}

TEST(FirstCause, WithoutAFailureNobodyIsSuspected) {
  FirstCause cause;
  cause.add(end_of(0, exited(0)));
  EXPECT_FALSE(cause.suspected());
  EXPECT_FALSE(cause.certain());
}

TEST(FirstCause, TheFirstFailureIsTheCause) {
  FirstCause cause;
  cause.add(end_of(0, exited(0)));
  cause.add(end_of(2, exited(3)));
  cause.add(end_of(1, exited(4)));
  EXPECT_TRUE(cause.certain());
  EXPECT_EQ(cause.get().rank, 2);
}

TEST(FirstCause, AVictimIsNotTheCauseThoughItIsNoticedFirst) {
  FirstCause cause;
  cause.add(end_of(0, exited(1), true));
  EXPECT_TRUE(cause.suspected());
  EXPECT_FALSE(cause.certain());
  cause.add(end_of(1, SIGKILL));
  cause.add(end_of(2, exited(1), true));
  EXPECT_TRUE(cause.certain());
  EXPECT_EQ(cause.get().rank, 1);
}

TEST(FirstCause, IfAllAreVictimsTheFirstIsTaken) {
  FirstCause cause;
  cause.add(end_of(1, exited(1), true));
  cause.add(end_of(0, exited(2), true));
  EXPECT_FALSE(cause.certain());
  EXPECT_EQ(cause.get().rank, 1);
}

TEST(FirstCause, ExitCodesAreThoseOfAShell) {
  EXPECT_EQ(exit_code_of(exited(0)), 0);
  EXPECT_EQ(exit_code_of(exited(7)), 7);
  EXPECT_EQ(exit_code_of(SIGKILL), 137);
}

std::string report_of(
    const std::vector<RankEnd>& ends,
    const std::deque<std::string>& last_lines = {}) {
  FirstCause cause;
  for (const auto& end : ends) {
    cause.add(end);
  }
  return last_lines_report(cause.get().rank, last_lines) +
      failure_report(cause, OnLoss::stop);
}

TEST(FailureReport, EndsWithTheRankItsProcessAndTheExitCode) {
  EXPECT_EQ(
      report_of({end_of(3, exited(7))}, {"a", "b"}),
      "zero: the last lines of rank 3:\n"
      "  a\n"
      "  b\n"
      "zero: rank 3 (process 103) failed with exit code 7; all ranks have been "
      "ended\n");
}

TEST(FailureReport, NamesTheSignal) {
  const std::string report = report_of({end_of(0, SIGSEGV)});
  EXPECT_NE(report.find("rank 0 wrote nothing\n"), std::string::npos);
  EXPECT_NE(report.find("was killed by SIGSEGV;"), std::string::npos) << report;
}

TEST(FailureReport, ExplainsSigkillByThePossibleLackOfMemory) {
  RankEnd end = end_of(0, SIGKILL);
  end.kill_explanation = "the OOM killer did it";
  const std::string report = report_of({end});
  EXPECT_NE(report.find("SIGKILL (the OOM killer did it);"), std::string::npos)
      << report;
}

TEST(FailureReport, ARankKilledForItsSilenceIsNotTakenForLackOfMemory) {
  RankEnd end = end_of(0, SIGKILL);
  end.silent = true;
  const std::string report = report_of({end});
  EXPECT_NE(report.find("no sign of life"), std::string::npos) << report;
  EXPECT_EQ(report.find("OOM killer"), std::string::npos) << report;
}

TEST(FailureReport, SaysThatAVictimIsOne) {
  const std::string report = report_of({end_of(0, exited(1), true)});
  EXPECT_NE(report.find("because another rank was gone"), std::string::npos);
}

TEST(FailureReport, NamesTheRankThatEndedWellButTooEarly) {
  const RankEnd deserter = end_of(2, exited(0));
  const std::string report = report_of({deserter, end_of(0, exited(1), true)});
  EXPECT_NE(
      report.find("because rank 2 had ended with exit code 0"),
      std::string::npos)
      << report;
}

TEST(FailureReport, ADeserterIsNotNamedIfAnotherRankReallyFailed) {
  const RankEnd deserter = end_of(2, exited(0));
  const std::string report = report_of({deserter, end_of(0, exited(1))});
  EXPECT_EQ(report.find("rank 2"), std::string::npos) << report;
}

TEST(FailureReport, OfRanksThatWentOnDoesNotSayThatTheyWereEnded) {
  FirstCause cause;
  cause.add(end_of(1, exited(7)));
  cause.add(end_of(0, exited(8)));
  EXPECT_EQ(
      failure_report(cause, OnLoss::shrink),
      "zero: rank 1 (process 101) failed with exit code 7; no rank is left\n");
}

TEST(LossReport, SaysHowTheRankEndedAndHowManyAreLeft) {
  EXPECT_EQ(
      loss_report(end_of(3, exited(7)), 3, 4),
      "zero: rank 3 (process 103) failed with exit code 7; the others go on, "
      "3 of 4 ranks are left\n");
  EXPECT_EQ(
      loss_report(end_of(0, SIGSEGV), 1, 2),
      "zero: rank 0 (process 100) was killed by SIGSEGV; the others go on, "
      "1 of 2 ranks is left\n");
  EXPECT_EQ(
      loss_report(end_of(0, exited(1)), 0, 2),
      "zero: rank 0 (process 100) failed with exit code 1; no rank is left\n");
}

TEST(LossReport, DoesNotSayWhyOneFailedThatHadLostAnotherBefore) {
  EXPECT_EQ(
      loss_report(end_of(2, exited(1), true), 2, 4),
      "zero: rank 2 (process 102) failed with exit code 1, after another rank "
      "was gone; the others go on, 2 of 4 ranks are left\n");
}

TEST(RankLabel, LabelsOfOneJobHaveOneWidth) {
  EXPECT_EQ(rank_label(3, 10, false), "[3] ");
  EXPECT_EQ(rank_label(3, 11, false), "[ 3] ");
  EXPECT_EQ(rank_label(10, 11, false), "[10] ");
  EXPECT_EQ(rank_label(0, 128, false), "[  0] ");
}

TEST(RankLabel, ColourGoesAroundTheLabelOnly) {
  EXPECT_EQ(rank_label(0, 2, true), "\033[36m[0]\033[0m ");
  EXPECT_NE(rank_label(1, 2, true), rank_label(0, 2, true));
}

} // namespace
} // namespace zero::launch

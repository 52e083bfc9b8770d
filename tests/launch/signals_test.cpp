// What becomes of the signals a user sends to a job.
#include <c10/util/StringUtil.h>
#include <gtest/gtest.h>

#include "launch/job.h"

namespace zero::test {
namespace {

// Prints a line when it gets the signal, then goes on or ends.
std::string traps(const std::string& signal, const std::string& then) {
  return "trap 'echo got " + signal + "; " + then + "' " + signal +
      "; echo ready; while true; do sleep 0.02; done";
}

char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos ? '-' : stat[name_end + 2];
}

struct Ending {
  int signal;
  const char* name;
};

class EndingSignal : public testing::TestWithParam<Ending> {};

TEST_P(EndingSignal, ReachesTheRanksAndGivesTheExitCode) {
  const auto [signal, name] = GetParam();
  Job job(zero_run(2, shell(traps(name, "exit 0"))));
  ASSERT_TRUE(job.prints("ready", 2));
  job.kill(signal);
  EXPECT_EQ(job.wait(), 128 + signal);
  EXPECT_EQ(
      job.sorted_out(),
      "[0] got " + std::string(name) + "\n[0] ready\n[1] got " + name +
          "\n[1] ready\n");
  // Before it the shells say what became of their `sleep`.
  EXPECT_TRUE(job.err().ends_with(
      c10::str("zero: the job was ended by SIG", name, "\n")))
      << job.err();
  EXPECT_TRUE(job.nothing_left());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    EndingSignal,
    testing::Values(
        Ending{SIGINT, "INT"},
        Ending{SIGTERM, "TERM"},
        Ending{SIGHUP, "HUP"},
        Ending{SIGQUIT, "QUIT"}),
    [](const auto& info) { return info.param.name; });

TEST(Signals, RanksThatDoNotEndAreKilledAfterTheGrace) {
  Job job(zero_run(2, shell(traps("TERM", ":")), {"--grace", "0.2"}));
  ASSERT_TRUE(job.prints("ready", 2));
  job.kill(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_TRUE(job.prints("got TERM", 2));
  EXPECT_TRUE(job.nothing_left());
}

TEST(Signals, ASecondInterruptKillsAtOnce) {
  Job job(zero_run(2, shell(traps("INT", ":")), {"--grace", "100000"}));
  ASSERT_TRUE(job.prints("ready", 2));
  job.kill(SIGINT);
  ASSERT_TRUE(job.prints("got INT", 2));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  job.kill(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  EXPECT_TRUE(job.nothing_left());
}

// As timeout(1) sends it.
TEST(Signals, ASignalThatComesTwiceAtOnceIsOne) {
  Job job(zero_run(1, shell(traps("TERM", "sleep 0.3; echo saved; exit 0"))));
  ASSERT_TRUE(job.prints("ready"));
  const pid_t supervisor = job.supervisor();
  for (int i = 0; i < 3; ++i) {
    ::kill(supervisor, SIGTERM);
  }
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_NE(job.out().find("saved"), std::string::npos);
}

TEST(Signals, UserSignalsAreForTheRanksAndEndNothing) {
  Job job(zero_run(
      2,
      shell("trap 'echo got USR1' USR1; trap 'echo got USR2; exit 0' USR2;"
            "sh -c 'sleep 1; sleep 1000' & echo ready;"
            "while kill -0 $!; do sleep 0.02; done; echo child was hit")));
  ASSERT_TRUE(job.prints("ready", 2));
  job.kill(SIGUSR1);
  ASSERT_TRUE(job.prints("got USR1", 2));
  job.kill(SIGUSR2);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(
      job.sorted_out(),
      "[0] got USR1\n[0] got USR2\n[0] ready\n"
      "[1] got USR1\n[1] got USR2\n[1] ready\n");
  EXPECT_TRUE(job.nothing_left());
}

TEST(Signals, AJobStopsAndGoesOn) {
  JobOptions options;
  // A process group that nobody could continue is not stopped by the terminal's
  // signal; this one has a parent in another group.
  options.prepare = [] { ::setpgid(0, 0); };
  // Without children: a shell that is about to start one (by vfork) cannot
  // stop before the child has begun, and that one is stopped too.
  Job job(zero_run(2, shell("echo ready; exec sleep 1000")), options);
  ASSERT_TRUE(job.prints("ready", 2));
  const auto ranks = job.children_of(job.supervisor());
  ASSERT_EQ(ranks.size(), 2);

  job.kill(SIGTSTP);
  const auto all_are = [&](bool stopped) {
    return eventually([&] {
      return (state_of(job.pid()) == 'T') == stopped &&
          (state_of(ranks[0]) == 'T') == stopped &&
          (state_of(ranks[1]) == 'T') == stopped;
    });
  };
  EXPECT_TRUE(all_are(true));
  job.kill(SIGCONT);
  EXPECT_TRUE(all_are(false));
  job.kill(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST(Signals, AStoppedJobCanBeKilled) {
  Job job(zero_run(2, shell("echo ready; while true; do sleep 0.02; done")));
  ASSERT_TRUE(job.prints("ready", 2));
  job.kill(SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(job.pid()) == 'T'; }));
  job.kill(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  EXPECT_TRUE(job.nothing_left());
}

TEST(Signals, HangupIsIgnoredUnderNohup) {
  JobOptions options;
  options.prepare = [] { ::signal(SIGHUP, SIG_IGN); };
  Job job(zero_run(1, shell("echo ready; sleep 0.3; echo done")), options);
  ASSERT_TRUE(job.prints("ready"));
  job.kill(SIGHUP);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[0] ready\n[0] done\n");
}

TEST(Signals, RanksStartWithTheSignalsOfTheUser) {
  const auto signals_of = [](const std::string& status) {
    std::string found;
    std::istringstream lines(status);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("SigBlk") != std::string::npos ||
          line.find("SigIgn") != std::string::npos) {
        found += line.substr(line.find("Sig")) + "\n";
      }
    }
    return found;
  };
  JobOptions options;
  options.prepare = [] { ::signal(SIGCHLD, SIG_IGN); };
  Job plain({"cat", "/proc/self/status"}, options);
  EXPECT_EQ(plain.wait(), 0);
  Job rank(zero_run(1, {"cat", "/proc/self/status"}), options);
  EXPECT_EQ(rank.wait(), 0);
  EXPECT_NE(signals_of(plain.out()), "");
  EXPECT_EQ(signals_of(rank.out()), signals_of(plain.out()));
}

} // namespace
} // namespace zero::test

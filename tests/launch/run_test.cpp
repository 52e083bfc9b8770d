// What `zero run` gives its ranks, and what it makes of their output.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/cores.h"
#include "launch/job.h"

namespace zero::test {
namespace {

TEST(Run, EveryRankKnowsItsRankAndTheSize) {
  Job job(zero_run(3, shell("echo $ZERO_RANK of $ZERO_SIZE")));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.sorted_out(), "[0] 0 of 3\n[1] 1 of 3\n[2] 2 of 3\n");
  EXPECT_EQ(job.err(), "");
  EXPECT_TRUE(job.nothing_left());
}

TEST(Run, TheRosterCanBeOpenedByWhatTheVariableSays) {
  Job job(zero_run(
      2,
      shell("readlink /proc/${ZERO_ROSTER%:*}/fd/${ZERO_ROSTER#*:};"
            "ls -l /proc/self/fd | grep roster || echo not inherited")));
  EXPECT_EQ(job.wait(), 0);
  const std::string out = job.out();
  for (const std::string rank : {"[0] ", "[1] "}) {
    EXPECT_NE(out.find(rank + "/memfd:zero-roster"), std::string::npos) << out;
    EXPECT_NE(out.find(rank + "not inherited"), std::string::npos) << out;
  }
}

TEST(Run, ARunWithinARankHasAWorldOfItsOwn) {
  Job job(zero_run(1, zero_run(2, shell("echo $ZERO_RANK/$ZERO_SIZE"))));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.sorted_out(), "[0] [0] 0/2\n[0] [1] 1/2\n");
}

TEST(Run, TheCoresAreSharedOutAsThreads) {
  const int num_ranks = 2 * base::available_cores();
  JobOptions options;
  options.unset = {"OMP_NUM_THREADS"};
  Job many(zero_run(num_ranks, shell("echo $OMP_NUM_THREADS")), options);
  Job one(zero_run(1, shell("echo $OMP_NUM_THREADS")), options);
  EXPECT_EQ(many.wait(), 0);
  EXPECT_NE(many.out().find("] 1\n"), std::string::npos) << many.out();
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(one.out(), "[0] " + std::to_string(base::available_cores()) + "\n");
}

TEST(Run, TheUsersNumberOfThreadsStays) {
  JobOptions options;
  options.set = {"OMP_NUM_THREADS=7"};
  Job job(zero_run(2, shell("echo $OMP_NUM_THREADS")), options);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.sorted_out(), "[0] 7\n[1] 7\n");
}

TEST(Run, ArgumentsOfTheProgramReachItUnchanged) {
  const Strings odd{"-n", "5", "--help", "[1,2]", "", "%%", "--", "a b", "$x"};
  Strings program{"/bin/sh", "-c", "printf '<%s>' \"$@\"", "name"};
  program.insert(program.end(), odd.begin(), odd.end());
  Job job(zero_run(1, program));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[0] <-n><5><--help><[1,2]><><%%><--><a b><$x>\n");
}

TEST(Run, BothStreamsAreLabelledAndKeptApart) {
  Job job(zero_run(2, shell("echo out; echo err >&2")));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.sorted_out(), "[0] out\n[1] out\n");
  EXPECT_EQ(Job::sorted(job.err()), "[0] err\n[1] err\n");
}

TEST(Run, LinesOfManyRanksDoNotMix) {
  Job job(zero_run(
      12,
      shell("for i in $(seq 200); do"
            " printf $ZERO_RANK; printf ' and '; printf \"$ZERO_RANK\\n\";"
            "done")));
  EXPECT_EQ(job.wait(), 0);
  std::istringstream lines(job.out());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string rank = std::to_string(std::stoi(line.substr(1)));
    const std::string pad(2 - rank.size(), ' ');
    EXPECT_EQ(line, "[" + pad + rank + "] " + rank + " and " + rank);
  }
  EXPECT_EQ(count, 12 * 200);
}

TEST(Run, ALineOfAMegabyteArrivesWhole) {
  Job job(zero_run(2, shell("head -c 1000000 /dev/zero | tr '\\0' x; echo")));
  EXPECT_EQ(job.wait(), 0);
  const std::string line(1'000'000, 'x');
  EXPECT_TRUE(job.sorted_out() == "[0] " + line + "\n[1] " + line + "\n");
}

TEST(Run, ALineWithoutEndIsEndedByTheLauncher) {
  Job job(zero_run(2, shell("printf unfinished")));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.sorted_out(), "[0] unfinished\n[1] unfinished\n");
}

TEST(Run, StandardInputGoesToRank0) {
  JobOptions options;
  options.input = "one\ntwo\n";
  Job job(zero_run(2, shell("cat; echo end")), options);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.sorted_out(), "[0] end\n[0] one\n[0] two\n[1] end\n");
}

TEST(Run, ClosedStandardStreamsDoNoHarm) {
  JobOptions options;
  options.prepare = [] {
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
  };
  TemporaryFolder folder;
  const std::string file = folder.path() / "rank";
  Job job(
      zero_run(
          2,
          shell("cat; echo out; echo err >&2; echo x >" + file + "$ZERO_RANK")),
      options);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(read_file(file + "0"), "x\n");
  EXPECT_EQ(read_file(file + "1"), "x\n");
  EXPECT_TRUE(job.nothing_left());
}

TEST(Run, AReaderThatLeavesEndsTheJob) {
  TemporaryFolder folder;
  const std::string code = folder.path() / "code";
  Job job(shell(
      "(\"" + zero_program() + "\" run -n 2 yes; echo $? >" + code +
      ") | head -n 1"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(job.nothing_left());
  EXPECT_EQ(job.err(), "");
  EXPECT_EQ(read_file(code), "141\n");
}

TEST(Run, AReaderThatTakesItsTimeLosesNothing) {
  Job job(shell(
      "\"" + zero_program() +
      "\" run -n 1 seq 1 400000 | { sleep 1; tail -n 1; }"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[0] 400000\n");
}

TEST(Run, AProgramThatDoesNotExistIsOneErrorAndNothingElse) {
  for (const std::string program : {"./no-such-program", "no-such-program"}) {
    Job job(zero_run(3, {program}));
    EXPECT_EQ(job.wait(), 127);
    EXPECT_EQ(job.out(), "");
    EXPECT_EQ(job.err().find("zero: cannot run " + program + ": "), 0)
        << job.err();
    EXPECT_EQ(std::ranges::count(job.err(), '\n'), 1) << job.err();
    EXPECT_TRUE(job.nothing_left());
  }
}

TEST(Run, AFileThatIsNoProgramIsOneErrorAndNothingElse) {
  Job job(zero_run(2, {"/dev/null"}));
  EXPECT_EQ(job.wait(), 126);
  EXPECT_EQ(job.err().find("zero: cannot run /dev/null: "), 0) << job.err();
  EXPECT_EQ(std::ranges::count(job.err(), '\n'), 1) << job.err();
}

// Makes the process that of a user without privileges.
void become_nobody() {
  constexpr id_t kNobody = 65534;
  if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) {
    ::_exit(98);
  }
}

// Whether `nobody` can run the program under test at all.
bool nobody_can_run() {
  JobOptions options;
  options.prepare = become_nobody;
  Job job({zero_program(), "--version"}, options);
  return job.wait() == 0;
}

TEST(Run, NoPrivilegesAreNeeded) {
  if (::getuid() != 0) {
    GTEST_SKIP() << "this user has no privileges: every other test shows it";
  }
  if (!nobody_can_run()) {
    GTEST_SKIP() << "the build folder is closed to the user nobody";
  }
  JobOptions options;
  options.prepare = become_nobody;
  Job job(
      zero_run(
          2,
          shell("id -u; true </proc/${ZERO_ROSTER%:*}/fd/${ZERO_ROSTER#*:}")),
      options);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.sorted_out(), "[0] 65534\n[1] 65534\n");
  EXPECT_TRUE(job.nothing_left());
}

TEST(Run, WhenNoMoreProcessesAreAllowedTheStartedOnesAreEnded) {
  if (::getuid() != 0 || !nobody_can_run()) {
    GTEST_SKIP() << "needs to become the user nobody, whose processes are few";
  }
  JobOptions options;
  options.prepare = [] {
    const rlimit limit{4, 4};
    ::setrlimit(RLIMIT_NPROC, &limit);
    become_nobody();
  };
  Job job(zero_run(8, {"sleep", "1000"}), options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.err().find("zero: cannot start "), 0) << job.err();
  EXPECT_NE(job.err().find("ulimit -u"), std::string::npos) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST(Run, WhenDescriptorsRunOutTheStartedOnesAreEnded) {
  JobOptions options;
  options.prepare = [] {
    const rlimit limit{32, 32};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  };
  Job job(zero_run(64, {"sleep", "1000"}), options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.err().find("zero: cannot start a rank"), 0) << job.err();
  EXPECT_NE(job.err().find("ulimit -n"), std::string::npos) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

} // namespace
} // namespace zero::test

// `zero doctor` on the machine of the test, where ranks evidently run.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zero/version.h>

#include "base/libtorch_version.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

std::string line_with(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(word) != std::string::npos) {
      return line;
    }
  }
  return "";
}

TEST(Doctor, SaysThatOneCanTrainHere) {
  Job job({zero_program(), "doctor"});
  EXPECT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(job.err(), "");
  const std::string out = job.out();
  const Strings good{
      "libzero " ZERO_VERSION,
      "libtorch " + base::libtorch_version(),
      "memfd_create",
      "pidfd_open",
      "/proc",
      "futex"};
  for (const auto& word : good) {
    EXPECT_EQ(line_with(out, word).find("  ok  "), 0) << word << " in\n" << out;
  }
  const std::string nccl = line_with(out, "NCCL");
  EXPECT_TRUE(has(nccl, "  ok  ") || has(nccl, "not part of this build"))
      << out;
  const std::string mpi = line_with(out, "MPI"); // as this build has it
  EXPECT_TRUE(has(mpi, "modules for") || has(mpi, "only needed for several"))
      << out;
  EXPECT_NE(line_with(out, "cores are available"), "") << out;
  EXPECT_NE(line_with(out, "of memory"), "") << out;
  EXPECT_NE(line_with(out, "container"), "") << out;
  EXPECT_NE(out.find("One can train here."), std::string::npos) << out;
  EXPECT_TRUE(job.nothing_left());
}

TEST(Doctor, FindsFewDescriptorsAndTooManyThreadsSlow) {
  JobOptions options;
  options.set = {"OMP_NUM_THREADS=100000"};
  options.prepare = [] {
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  };
  Job job({zero_program(), "doctor"}, options);
  EXPECT_EQ(job.wait(), 0);
  for (const std::string word : {"open files", "OMP_NUM_THREADS"}) {
    EXPECT_EQ(line_with(job.out(), word).find("  slow  "), 0) << job.out();
  }
}

TEST(Doctor, SaysWhatIsMissingWhereOneCannotTrain) {
  JobOptions options;
  options.prepare = [] {
    // Enough for the output, but not for shared memory.
    const rlimit limit{1 << 15, 1 << 15};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
  };
  Job job({zero_program(), "doctor"}, options);
  EXPECT_EQ(job.wait(), 1);
  const std::string line = line_with(job.out(), "memfd_create");
  EXPECT_EQ(line.find("  missing  "), 0) << job.out();
  EXPECT_NE(line.find("ulimit -f"), std::string::npos) << job.out();
  EXPECT_NE(job.out().find("One cannot train here"), std::string::npos);
}

} // namespace
} // namespace zero::test

#include "report/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::report {
namespace {

TEST(MetricsFile, LinesAreAddedToWhatIsThere) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  {
    MetricsFile file(path);
    file.add("{}");
  }
  MetricsFile(path).add("{\"a\":1}");
  EXPECT_EQ(test::read_file(path), "{}\n{\"a\":1}\n");
}

TEST(MetricsFile, ALineThatHasNoRoomLeavesTheOthersWhole) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  MetricsFile file(path);
  file.add("first");
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string error =
      test::error_of([&] { file.add(std::string(1000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_TRUE(test::has(error, "keeps the lines it has")) << error;
  EXPECT_EQ(test::read_file(path), "first\n");
  file.add("second");
  EXPECT_EQ(test::read_file(path), "first\nsecond\n");
}

TEST(MetricsFile, AFolderThatIsNotThereIsToldOf) {
  EXPECT_TRUE(test::has(
      test::error_of([] { MetricsFile file("/nowhere/metrics.jsonl"); }),
      "cannot write '/nowhere/metrics.jsonl'"));
}

} // namespace
} // namespace zero::report

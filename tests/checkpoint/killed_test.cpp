// Killed at every write, or told that the disk is full: the newest complete
// checkpoint is there, and is what was saved.
#include <zero/zero.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "launch/job.h"

namespace zero::test {
namespace {

namespace fs = std::filesystem;

std::string saving_ranks() {
  return fs::path(zero_program()).parent_path() / "saving_ranks";
}

// What it said: the checksums of steps, and the last one that was saved.
struct Said {
  std::map<int64_t, std::string> steps;
  int64_t saved = 0;
  int64_t loaded = 0;
  std::string loaded_checksum;
};

Said read(const std::string& output) {
  Said said;
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("[0] ")) {
      line.erase(0, 4);
    }
    std::istringstream words(line);
    std::string word;
    std::string checksum;
    int64_t step = 0;
    words >> word >> step >> checksum;
    if (word == "step") {
      said.steps[step] = checksum;
    } else if (word == "saved") {
      said.saved = step;
    } else if (word == "loaded") {
      said.loaded = step;
      said.loaded_checksum = checksum;
    }
  }
  return said;
}

Strings command(int num_ranks, const fs::path& folder, int saves) {
  const Strings program{saving_ranks(), folder, std::to_string(saves)};
  return num_ranks == 1 ? program : zero_run(num_ranks, program);
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with(".");
}

// Runs until the failpoint is never reached. Returns how often it was.
int fail_at_every_call(
    const std::string& action,
    int num_ranks,
    int rank,
    int saves) {
  for (int call = 1;; ++call) {
    SCOPED_TRACE(c10::str(action, " at call ", call, " of rank ", rank));
    const TemporaryFolder base;
    const fs::path folder = base.path() / "checkpoint";
    Said said;
    {
      JobOptions options;
      options.set.push_back(
          c10::str("ZERO_FAILPOINT=file.call:", action, "@", call, ":", rank));
      Job job(command(num_ranks, folder, saves), options);
      const int code = job.wait();
      EXPECT_TRUE(job.nothing_left());
      said = read(job.out());
      if (code == 0 && said.saved == saves) {
        return call - 1;
      }
      EXPECT_NE(code, 0);
    }
    if (said.saved == 0 && !fs::exists(folder)) {
      continue;
    }
    bool is_any = false;
    for (const auto& entry : fs::directory_iterator(folder)) {
      is_any = is_any || !is_hidden(entry.path());
    }
    EXPECT_TRUE(is_any || said.saved == 0);
    if (!is_any) {
      continue;
    }
    // Goes on from there to the end, and clears up.
    Job job(command(num_ranks, folder, saves));
    EXPECT_EQ(job.wait(), 0) << job.err();
    const Said after = read(job.out());
    EXPECT_GE(after.loaded, said.saved);
    EXPECT_EQ(after.loaded_checksum, said.steps[after.loaded]);
    for (const auto& entry : fs::directory_iterator(folder)) {
      EXPECT_TRUE(after.saved == 0 || !is_hidden(entry.path())) << entry.path();
    }
    if (testing::Test::HasFailure()) {
      return call;
    }
  }
}

// The second save removes the first one.
TEST(KilledWhileSaving, AtEveryCall) {
  EXPECT_GE(fail_at_every_call("kill", 1, 0, 2), 20);
}

TEST(KilledWhileSaving, AnotherRankAtEveryCall) {
  EXPECT_GE(fail_at_every_call("kill", 2, 1, 1), 4);
}

TEST(KilledWhileSaving, TheDiskIsFullAtEveryCall) {
  EXPECT_GE(fail_at_every_call("enospc", 1, 0, 1), 10);
}

} // namespace
} // namespace zero::test

// Failpoints in a process of its own: they are read when it begins.
#include "base/failpoint.h"

#include <gtest/gtest.h>

#include <csignal>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

struct Outcome {
  int code = 0;
  std::string err;
  bool is_done = false; // all files are there
};

// Of a command that writes a few files.
Outcome outcome_with(const std::string& failpoint, const Strings& set = {}) {
  const TemporaryFolder folder;
  const std::string out = folder.path() / "out";
  JobOptions options;
  options.set = set;
  options.set.push_back("ZERO_FAILPOINT=" + failpoint);
  Job job({zero_program(), "data", __FILE__, "--out", out}, options);
  const int code = job.wait();
  return {
      .code = code,
      .err = job.err(),
      .is_done = std::filesystem::exists(out + "/train.bin") &&
          std::filesystem::exists(out + "/val.bin")};
}

TEST(Failpoint, WhatCannotBeMeantIsRefused) {
  for (const std::string bad :
       {"file.call",
        "file.call:",
        "file.call:explode",
        ":kill",
        "file.call:kill@x",
        "file.call:kill@2x",
        "file.call:kill@2@3",
        "file.call:kill@0",
        "file.call:kill@-1",
        "file.call:kill@99999999999999999999",
        "file.call:kill@1:x",
        "file.call:explode@1:1", // of another rank
        "file.call:eio@99,file.call:explode"}) {
    SCOPED_TRACE(bad);
    const Outcome outcome = outcome_with(bad);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    const std::string last = bad.substr(bad.find(',') + 1);
    EXPECT_TRUE(
        has(outcome.err,
            "ZERO_FAILPOINT: '" + last +
                "' is not name:action[@times][:rank] with an action of kill, "
                "stop, term, enospc or eio"))
        << outcome.err;
    EXPECT_FALSE(outcome.is_done);
  }
}

TEST(Failpoint, ActsTheTimeItIsToldTo) {
  EXPECT_EQ(outcome_with("file.call:kill").code, -SIGKILL);
  EXPECT_EQ(outcome_with("file.call:kill@2").code, -SIGKILL);
  const Outcome full = outcome_with("file.call:enospc@2");
  EXPECT_EQ(full.code, 1);
  EXPECT_TRUE(has(full.err, "No space left on device")) << full.err;
  const Outcome second = outcome_with("file.call:enospc@100000,file.call:eio");
  EXPECT_EQ(second.code, 1);
  EXPECT_TRUE(has(second.err, "Input/output error")) << second.err;
  for (const std::string never :
       {"file.call:kill@100000", "nobody.comes.here:kill"}) {
    const Outcome outcome = outcome_with(never);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(outcome.is_done);
  }
}

TEST(Failpoint, ARankIsMeantAlone) {
  EXPECT_EQ(outcome_with("file.call:kill@1:0").code, -SIGKILL);
  EXPECT_EQ(outcome_with("file.call:kill@1:1").code, 0);
  EXPECT_EQ(outcome_with("file.call:kill@1:1", {"ZERO_RANK=1"}).code, -SIGKILL);
  EXPECT_EQ(outcome_with("file.call:kill@1:0", {"ZERO_RANK=1"}).code, 0);
}

} // namespace
} // namespace zero::test

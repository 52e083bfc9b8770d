// Runs of `zero train` that are interrupted, and go on.
#include <cmath>
#include <csignal>

#include "checkpoint/checkpoint_folder.h"
#include "tasks/train_fixture.h"

namespace zero::tasks {
namespace {

class ResumeTest : public TrainTest {
 protected:
  json saving() const {
    json config = gpt();
    config["model"]["dropout"] = 0.1;
    config["train"]["steps"] = 12;
    config["train"]["evaluate_every"] = 4;
    config["train"]["save_every"] = 5;
    return config;
  }

  Strings resuming(const json& config, int ranks, const std::string& out)
      const {
    Strings words = command(config, ranks, out);
    words.emplace_back("--resume");
    return words;
  }

  int64_t newest(const std::string& out) const {
    const auto found = checkpoint::find_checkpoints(path(out) + "/checkpoints");
    return found.empty() ? -1 : found.front().step;
  }
};

TEST_F(ResumeTest, ARunThatWasKilledGoesOnBitByBit) {
  Job whole(command(saving(), 2, "whole"));
  ASSERT_EQ(whole.wait(), 0) << whole.err();
  {
    json config = saving();
    config["train"]["steps"] = 1'000'000;
    Job job(command(config, 2, "run"));
    ASSERT_TRUE(job.prints("save-000002-step-10")) << job.out() << job.err();
    for (const pid_t rank : ranks_at_work(job)) {
      ::kill(rank, SIGKILL);
    }
    EXPECT_NE(job.wait(), 0);
  }
  Job job(resuming(saving(), 2, "run"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_TRUE(has(job.out(), "resumed  from step 10, ")) << job.out();
  EXPECT_EQ(losses_by_step("run"), losses_by_step("whole"));
  EXPECT_EQ(
      test::read_file(path("run") + "/model/model.safetensors"),
      test::read_file(path("whole") + "/model/model.safetensors"));
  const auto facts = facts_of("run");
  EXPECT_EQ(facts["best step"], facts_of("whole")["best step"]);
}

TEST_F(ResumeTest, WithAnotherNumberOfRanksItGoesOnAsIfNothingWere) {
  json config = saving();
  config["model"]["dropout"] = 0; // every rank draws its own numbers
  Job whole(command(config, 1, "whole"));
  ASSERT_EQ(whole.wait(), 0) << whole.err();
  const auto expected = losses_by_step("whole");
  json half = config;
  half["train"]["steps"] = 7;
  Job first(command(half, 4, "run"));
  ASSERT_EQ(first.wait(), 0) << first.err();
  config["zero_optimization"]["stage"] = 1;
  Job second(resuming(config, 2, "run"));
  ASSERT_EQ(second.wait(), 0) << second.err();
  const auto found = losses_by_step("run");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, loss] : found) {
    EXPECT_NEAR(loss, expected.at(step), 1e-5 * std::abs(loss)) << step;
  }
}

TEST_F(ResumeTest, ASignalToAnyRankSaves) {
  json config = endless();
  Job job(command(config, 2, "run"));
  const auto ranks = ranks_at_work(job);
  EXPECT_EQ(newest("run"), -1);
  ::kill(ranks[1], SIGUSR1);
  ASSERT_TRUE(job.prints("save-000001")) << job.out() << job.err();
  ::kill(ranks[1], SIGTERM);
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(has(job.out(), "save-000002")) << job.out();
  EXPECT_TRUE(job.nothing_left());
  const int64_t saved = newest("run");
  EXPECT_EQ(saved, metrics("run").back()["step"]);
  config["train"]["steps"] = saved + 2;
  Job next(resuming(config, 1, "run"));
  EXPECT_EQ(next.wait(), 0) << next.err();
  EXPECT_EQ(newest("run"), saved + 2);
}

// In a step, between steps, in an evaluation, while a checkpoint is written or
// copied: what was asked of one rank is done by all, at one step.
TEST_F(ResumeTest, SigtermInAnyPhaseOfAnyRankSavesAndIsGoneOnFrom) {
  Job whole(command(saving(), 2, "whole"));
  ASSERT_EQ(whole.wait(), 0) << whole.err();
  int num_interrupted = 0;
  for (const char* moment :
       {"engine.moment:term@1:0",
        "engine.moment:term@60:1",
        "engine.moment:term@97:0",
        "train.moment:term@3:1",
        "train.moment:term@14:0",
        "file.call:term@4:1",
        "file.call:term@9:0",
        "save.shard:term@1:1"}) {
    SCOPED_TRACE(moment);
    const std::string out = std::string("run-") + moment;
    test::JobOptions options;
    options.set.push_back(std::string("ZERO_FAILPOINT=") + moment);
    Job job(command(saving(), 2, out), options);
    job.wait();
    EXPECT_TRUE(job.nothing_left());
    EXPECT_TRUE(has(job.out(), "save-00000")) << job.out() << job.err();
    const int64_t saved = newest(out);
    EXPECT_EQ(saved, losses_by_step(out).rbegin()->first);
    if (saved < 12) {
      ++num_interrupted;
      Job next(resuming(saving(), 2, out));
      ASSERT_EQ(next.wait(), 0) << next.err();
    }
    EXPECT_EQ(losses_by_step(out), losses_by_step("whole"));
  }
  EXPECT_EQ(num_interrupted, 8); // or the moments are not what they were
}

// The time of day jumps by hours, back and forth, whenever anybody asks for it.
TEST_F(ResumeTest, ClockJumpsChangeNothing) {
  json config = saving();
  config["train"]["save_minutes"] = 30;
  Job whole(command(config, 2, "whole"));
  ASSERT_EQ(whole.wait(), 0) << whole.err();
  test::JobOptions options;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe");
  options.set.push_back(
      "LD_PRELOAD=" + (self.parent_path() / "libclock_jumps.so").string());
  Job job(command(config, 2, "run"), options);
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_FALSE(has(job.err(), "lost")) << job.err();
  EXPECT_EQ(losses_by_step("run"), losses_by_step("whole"));
  // By steps alone: half an hour has not gone by.
  EXPECT_EQ(
      num_lines_with(job.out(), "saved"), num_lines_with(whole.out(), "saved"));
  for (const auto& line : metrics("run")) {
    if (line.contains("seconds")) {
      EXPECT_GE(line["seconds"].get<double>(), 0);
      EXPECT_LT(line["seconds"].get<double>(), 600);
    }
  }
  Job next(resuming(config, 2, "run"), options);
  EXPECT_EQ(next.wait(), 0) << next.err();
}

TEST_F(ResumeTest, TimePassesToo) {
  json config = endless();
  config["train"]["save_minutes"] = 0.01;
  Job job(command(config, 2, "run"));
  EXPECT_TRUE(job.prints("save-000002")) << job.out() << job.err();
  job.kill(SIGTERM);
  job.wait();
}

TEST_F(ResumeTest, WhatHasNoCheckpointBegins) {
  json config = saving();
  config["train"]["steps"] = 2;
  Job job(resuming(config, 1, "run"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(has(job.out(), "there is no checkpoint")) << job.out();
  EXPECT_EQ(losses_by_step("run").size(), 2);
}

TEST_F(ResumeTest, MistakesAreToldOf) {
  json config = saving();
  Job job(command(config, 1, "run"));
  ASSERT_EQ(job.wait(), 0) << job.err();
  config["train"]["steps"] = 3;
  Job fewer(resuming(config, 1, "run"));
  EXPECT_NE(fewer.wait(), 0);
  EXPECT_TRUE(has(fewer.err(), "has 12 steps behind it")) << fewer.err();
  config["train"]["seed"] = 3;
  Job seed(resuming(config, 1, "run"));
  EXPECT_NE(seed.wait(), 0);
  EXPECT_TRUE(has(seed.err(), "with seed 3")) << seed.err();
  config["model"]["n_embd"] = 32;
  Job width(resuming(config, 2, "run"));
  EXPECT_NE(width.wait(), 0);
  EXPECT_TRUE(has(width.err(), "the checkpoint does not fit")) << width.err();
  EXPECT_EQ(losses_by_step("run").size(), 12); // nothing is lost
}

// A disk that fills while a checkpoint is written: the run ends with one error,
// and what was saved before is whole.
TEST_F(ResumeTest, AFullDiskLeavesTheOldCheckpoint) {
  json config = saving();
  config["train"]["steps"] = 1'000'000;
  test::JobOptions options;
  options.set.emplace_back("ZERO_FAILPOINT=save.shard:enospc@2:1");
  Job job(command(config, 2, "run"), options);
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(has(job.err(), "No space left on device")) << job.err();
  EXPECT_EQ(newest("run"), 5);
  config["train"]["steps"] = 7;
  Job next(resuming(config, 2, "run"));
  EXPECT_EQ(next.wait(), 0) << next.err();
  EXPECT_TRUE(has(next.out(), "resumed  from step 5")) << next.out();
}

} // namespace
} // namespace zero::tasks

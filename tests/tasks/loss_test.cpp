// Runs of `zero train --on-loss shrink` and `replace` that lose ranks.
#include <cmath>

#include "tasks/train_fixture.h"

namespace zero::tasks {
namespace {

class LossTest : public TrainTest {
 protected:
  static constexpr int64_t kNumSteps = 12;
  static constexpr int64_t kManySteps = 300;

  // With SGD, so that a difference by rounding stays one.
  json config() const {
    json config = gpt();
    config["train"]["steps"] = kNumSteps;
    config["train"]["evaluate_every"] = 4;
    config["train"]["save_every"] = 3;
    config["train_batch_size"] = 12;
    config["train_micro_batch_size_per_gpu"] = 2;
    config["optimizer"] = {{"type", "SGD"}, {"params", {{"lr", 0.1}}}};
    return config;
  }

  // Long enough for a new process to come, and so tame that rounding stays
  // what it is.
  json long_config() const {
    json longer = config();
    longer["model"]["n_embd"] = 64;
    longer["model"]["block_size"] = 32;
    longer["train"]["steps"] = kManySteps;
    longer["train"]["evaluate_every"] = 100;
    longer["train"]["save_every"] = 75;
    longer["optimizer"]["params"]["lr"] = 0.01;
    return longer;
  }

  Strings losing(
      const json& config,
      int ranks,
      const std::string& out,
      const std::string& failpoint,
      const std::string& on_loss = "shrink") const {
    Strings words{"/usr/bin/env", "ZERO_FAILPOINT=" + failpoint};
    for (const auto& word :
         command(config, ranks, out, {"--on-loss", on_loss})) {
      words.push_back(word);
    }
    return words;
  }

  double last_epoch(const std::string& out) const {
    double epoch = 0;
    for (const auto& line : metrics(out)) {
      epoch = std::max(epoch, line.value("epoch", 0.0));
    }
    return epoch;
  }

  std::vector<int64_t> evaluated_steps(const std::string& out) const {
    std::vector<int64_t> steps;
    for (const auto& line : metrics(out)) {
      if (line.contains("eval")) {
        steps.push_back(line["step"]);
      }
    }
    return steps;
  }

  void expect_same_as_undisturbed(const std::string& out) {
    const auto expected = losses_by_step("undisturbed");
    const auto found = losses_by_step(out);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [step, loss] : expected) {
      EXPECT_NEAR(found.at(step), loss, 1e-5 * std::abs(loss)) << step;
    }
    EXPECT_EQ(evaluated_steps(out), evaluated_steps("undisturbed"));
    EXPECT_EQ(facts_of(out)["ended"], "finished");
  }

  void run_undisturbed() {
    Job job(command(config(), 3, "undisturbed"));
    ASSERT_EQ(job.wait(), 0) << job.err();
  }
};

TEST_F(LossTest, TheOthersGoOnWithTheLossesOfTheWholeBatch) {
  run_undisturbed();
  int number = 0;
  for (const std::string failpoint :
       {"engine.moment:kill@40:1",
        "engine.moment:kill@75:0",
        "engine.moment:kill@90:2",
        "train.moment:kill@14:0", // in an exchange of the trainer's own
        "train.moment:kill@15:1",
        "train.moment:kill@16:2",
        "train.moment:kill@17:0",
        "train.moment:kill@18:1",
        "file.call:kill@30:0", // in a checkpoint
        "file.call:kill@9:1"}) {
    SCOPED_TRACE(failpoint);
    const std::string out = "run" + std::to_string(number++);
    Job job(losing(config(), 3, out, failpoint));
    ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
    EXPECT_TRUE(has(job.err(), "the others go on, 2 of 3 ranks are left"))
        << job.err();
    EXPECT_EQ(num_lines_with(job.out(), "lost     rank "), 1) << job.out();
    EXPECT_TRUE(job.nothing_left());
    expect_same_as_undisturbed(out);
    EXPECT_TRUE(
        has(test::read_file(path(out) + "/report.html"), "lost     rank "));
  }
}

TEST_F(LossTest, OneRankEndsWhatThreeBegan) {
  run_undisturbed();
  Job job(losing(
      config(), 3, "run", "engine.moment:kill@40:0,engine.moment:kill@120:1"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_TRUE(has(job.err(), "1 of 3 ranks is left")) << job.err();
  expect_same_as_undisturbed("run");
}

TEST_F(LossTest, ABatchMayShrinkWithTheRanks) {
  json shrinking = config();
  shrinking["train"]["batch_on_loss"] = "shrink";
  Job job(losing(shrinking, 3, "run", "engine.moment:kill@40:1"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_EQ(losses_by_step("run").size(), kNumSteps);
  // With 12 samples a step until the loss, and with 8 after it.
  run_undisturbed();
  EXPECT_LT(last_epoch("run"), last_epoch("undisturbed"));
}

TEST_F(LossTest, WhatOneRankHasSavedAloneIsGoneOnFrom) {
  run_undisturbed();
  Job job(losing(config(), 2, "run", "engine.moment:kill@60:0"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  json longer = config();
  longer["train"]["steps"] = kNumSteps + 2;
  Job resumed(command(longer, 3, "run", {"--resume"}));
  ASSERT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_EQ(losses_by_step("run").size(), kNumSteps + 2);
}

TEST_F(LossTest, ALostRankIsReplaced) {
  Job undisturbed(command(long_config(), 3, "undisturbed"));
  ASSERT_EQ(undisturbed.wait(), 0) << undisturbed.err();
  int number = 0;
  for (const std::string failpoint :
       {"engine.moment:kill@300:1",
        "engine.moment:kill@300:0",
        "engine.moment:kill@301:0,engine.moment:kill@650:2",
        // The first that takes a place is number 3.
        "engine.moment:kill@300:1,recovery.moment:kill@5:3",
        "engine.moment:kill@300:1,train.moment:kill@2:3",
        "engine.moment:kill@300:1,engine.moment:kill@3500:0"}) {
    SCOPED_TRACE(failpoint);
    const std::string out = "run" + std::to_string(number++);
    Job job(losing(long_config(), 3, out, failpoint, "replace"));
    ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
    EXPECT_TRUE(has(job.err(), " is started in place of rank ")) << job.err();
    EXPECT_GE(num_lines_with(job.out(), "joined   rank "), 1) << job.out();
    EXPECT_TRUE(job.nothing_left());
    expect_same_as_undisturbed(out);
    EXPECT_TRUE(
        has(test::read_file(path(out) + "/report.html"), "joined   rank "));
    EXPECT_EQ(last_epoch(out), last_epoch("undisturbed"));
  }
}

TEST_F(LossTest, ABatchGrowsAgainWithTheRanks) {
  json shrinking = long_config();
  shrinking["train"]["batch_on_loss"] = "shrink";
  Job job(losing(shrinking, 3, "run", "engine.moment:kill@300:1", "replace"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_GE(num_lines_with(job.out(), "joined   rank "), 1) << job.out();
  std::vector<double> epochs;
  for (const auto& line : metrics("run")) {
    if (line.contains("loss")) {
      epochs.push_back(line["epoch"]);
    }
  }
  ASSERT_EQ(epochs.size(), kManySteps);
  const double whole = epochs.front(); // 12 samples
  std::vector<double> steps;
  for (size_t i = 1; i < epochs.size(); ++i) {
    steps.push_back(epochs[i] - epochs[i - 1]);
  }
  EXPECT_NEAR(std::ranges::min(steps), whole * 8 / 12, whole * 1e-3);
  EXPECT_NEAR(steps.back(), whole, whole * 1e-3);
}

TEST_F(LossTest, WithoutTheOptionTheJobEnds) {
  Strings words{"/usr/bin/env", "ZERO_FAILPOINT=engine.moment:kill@60:1"};
  for (const auto& word : command(config(), 3, "run")) {
    words.push_back(word);
  }
  Job job(words);
  EXPECT_EQ(job.wait(), 137) << job.out() << job.err();
}

} // namespace
} // namespace zero::tasks

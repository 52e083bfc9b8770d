// All mistakes are reported at once, each where it is.
#include "config/report.h"

#include <gtest/gtest.h>
#include <zero/error.h>

#include "config/mistakes.h"

namespace zero::config {
namespace {

std::string thrown(Report& report) {
  try {
    report.throw_if_any();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(Report, NothingWrongThrowsNothing) {
  Report report("zero.json");
  report.place("a", 3);
  EXPECT_EQ(thrown(report), "");
}

TEST(Report, OneMistakeIsOneLine) {
  Report report("zero.json");
  report.place("a.b", 3);
  report.expected("a.b", "-1", "a number of at least 0", "make it so");
  EXPECT_EQ(
      thrown(report),
      "zero.json:3: a.b: got -1, expected a number of at least 0. Fix: make it "
      "so");
}

TEST(Report, MistakesAreInTheOrderOfLines) {
  Report report("zero.json");
  report.place("b", 2);
  report.place("a", 10);
  report.add("a", "wrong");
  report.add("b", "wrong too");
  EXPECT_EQ(
      thrown(report),
      "zero.json: 2 mistakes\nzero.json:2: b: wrong too\nzero.json:10: a: "
      "wrong");
}

TEST(Report, WhatIsMissingHasTheLineOfItsSection) {
  Report report("zero.json");
  report.place("a", 4);
  report.add("a.b[2].c", "missing");
  EXPECT_EQ(thrown(report), "zero.json:4: a.b[2].c: missing");
}

TEST(Report, WithoutAPlaceThereIsNoLine) {
  Report report("configuration");
  report.add("a.b", "wrong");
  EXPECT_EQ(thrown(report), "configuration: a.b: wrong");
}

TEST(Report, SeveralMistakesOfAFileAreAllThereWithTheirLines) {
  const std::string message = mistakes_of(R"({
  "train_batch_size": 0,
  "optimizer": {
    "type": "AdamW",
    "params": {
      "lr": "fast",
      "betas": [0.9, 1.5],
      "colour": 1
    }
  },
  "zero_optimization": {
    "stgae": 2,
    "overlap_comm": 1
  },
  "fp16": {"enabled": true}
})");
  EXPECT_EQ(num_lines(message), 8U) << message;
  EXPECT_TRUE(mentions(message, "zero.json: 7 mistakes\n"));
  EXPECT_TRUE(mentions(message, "\nzero.json:2: train_batch_size: got 0"));
  EXPECT_TRUE(mentions(message, "\nzero.json:6: optimizer.params.lr: got "));
  EXPECT_TRUE(mentions(message, "\nzero.json:7: optimizer.params.betas: got "));
  EXPECT_TRUE(mentions(message, "\nzero.json:8: optimizer.params.colour: un"));
  EXPECT_TRUE(mentions(message, "\nzero.json:12: zero_optimization.stgae: un"));
  EXPECT_TRUE(mentions(message, "did you mean stage?"));
  EXPECT_TRUE(mentions(message, "\nzero.json:13: zero_optimization.overlap_c"));
  EXPECT_TRUE(mentions(message, "\nzero.json:15: fp16: DeepSpeed's fp16 is "));
}

TEST(Report, AMisplacedKeyIsToldWhereItBelongs) {
  EXPECT_TRUE(has_one_mistake(
      R"({"stage": 2})", "stage: unknown key here. Fix: move it to zero_opt"));
  EXPECT_TRUE(has_one_mistake(R"({"lr": 1})", "move it to optimizer.params"));
  EXPECT_TRUE(has_one_mistake(
      R"({"zero_optimization": {"gradient_clipping": 1}})",
      "move it to the top level"));
  EXPECT_TRUE(
      has_one_mistake(R"({"shared_memory": true})", "move it to libzero"));
}

TEST(Report, AKeyIsNeverSentToASectionThatIsNotServed) {
  const std::string message = mistakes_of(R"({"profile_step": 1})");
  EXPECT_EQ(message.find("flops_profiler"), std::string::npos) << message;
}

TEST(Report, UnknownKeysOfSmallSectionsAreAnsweredWithTheKnownOnes) {
  EXPECT_TRUE(has_one_mistake(
      R"({"scheduler": {"type": "WarmupLR", "zzzzzzzz": 1}})",
      "expected type or params"));
}

TEST(Report, KeysOfTheTrainerAreLeftAlone) {
  EXPECT_TRUE(has_no_mistake(
      R"({"model": {"x": 1}, "data": {"stage": []}, "train": {}})"));
  EXPECT_TRUE(has_one_mistake(R"({"model": 3})", "model: got 3, expected an "));
}

TEST(Report, AMillionMistakesMakeAMessageThatCanBeRead) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) {
    text += "\"unknown_key_" + std::to_string(i) + "\": 0,\n";
  }
  const std::string message = mistakes_of(text + "\"stage\": 0}");
  EXPECT_LT(num_lines(message), 200U);
  EXPECT_TRUE(mentions(message, "100001 mistakes"));
  EXPECT_TRUE(mentions(message, "and 99901 more"));
}

TEST(Report, KeysCannotForgeLinesOrColours) {
  const std::string message =
      mistakes_of("{\"a\\nzero.json:1: \\u001b[31m\": 1}");
  EXPECT_EQ(num_lines(message), 1U);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

} // namespace
} // namespace zero::config

#include "report/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::report {
namespace {

using test::error_of;
using test::has;

class RunLogTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }
  RunLog read() {
    return read_run(folder_.path());
  }
  RunLog read(const std::string& metrics) {
    write("metrics.jsonl", metrics);
    return read();
  }

  test::TemporaryFolder folder_;
};

constexpr const char* kUpdate =
    R"({"step":3,"epoch":0.5,"loss":4.25,"lr":0.001,"grad_norm":1.5,"seconds":0.05,"samples_per_second":480.0,"tokens_per_second":30720,"memory":{"parameters":100,"gathered":7,"gathered_peak":20,"gradients":3,"optimizer":200,"buffers":4,"spilled":5},"traffic":{"intra_node":10,"inter_node":20,"control":3},"ranks":{"waiting":[0.25,0.5],"communication":[1,2],"resident":[1000,3000]}})";

TEST_F(RunLogTest, AnUpdateIsReadInFull) {
  const RunLog run = read(std::string(kUpdate) + "\n");
  ASSERT_EQ(run.updates.size(), 1);
  const Update& update = run.updates[0];
  EXPECT_EQ(update.step, 3);
  EXPECT_EQ(update.epoch, 0.5F);
  EXPECT_EQ(update.loss, 4.25F);
  EXPECT_EQ(update.lr, 0.001F);
  EXPECT_EQ(update.grad_norm, 1.5F);
  EXPECT_EQ(update.seconds, 0.05F);
  EXPECT_EQ(update.samples_per_second, 480.0F);
  EXPECT_EQ(update.tokens_per_second, 30720.0F);
  EXPECT_EQ(update.memory_bytes(), 332); // 7 of the 20 gathered at once
  EXPECT_EQ(update.traffic_bytes(), 33);
  EXPECT_EQ(run.waiting(update)[1], 0.5F);
  EXPECT_EQ(run.communication(update)[0], 1.0F);
  EXPECT_EQ(run.resident(update)[1], 3000.0F);
  EXPECT_TRUE(std::isnan(run.overlap(update))); // it tells of the one before
  EXPECT_TRUE(run.evaluations.empty());
}

TEST_F(RunLogTest, EvaluationsAreApartFromUpdates) {
  const RunLog run = read(
      R"({"step":250,"eval":{"loss":1.5,"perplexity":6.5},"seconds":3,"samples":128,"text":"To \u00e4 be"})"
      "\n"
      R"({"eval":{"loss":1,"accuracy":0.75,"top5":0.97},"step":500})"
      "\n");
  EXPECT_TRUE(run.updates.empty());
  ASSERT_EQ(run.evaluations.size(), 2);
  EXPECT_EQ(run.evaluations[0].perplexity, 6.5F);
  EXPECT_EQ(run.evaluations[0].seconds, 3.0F);
  EXPECT_EQ(run.evaluations[0].text, "To ä be");
  EXPECT_EQ(run.evaluations[1].accuracy, 0.75F);
  EXPECT_EQ(run.evaluations[1].top5, 0.97F);
  EXPECT_TRUE(std::isnan(run.evaluations[1].perplexity));
}

TEST_F(RunLogTest, NotesAreApartFromTheUpdateOfTheirStep) {
  const RunLog run = read(
      std::string(kUpdate) + "\n" + R"({"step":3,"note":"lost rank 1"})" +
      "\n");
  ASSERT_EQ(run.updates.size(), 1);
  EXPECT_EQ(run.updates[0].loss, 4.25F);
  ASSERT_EQ(run.notes.size(), 1);
  EXPECT_EQ(run.notes[0].step, 3);
  EXPECT_EQ(run.notes[0].text, "lost rank 1");
}

TEST_F(RunLogTest, WhatIsNullOrUnknownIsNoValue) {
  const RunLog run =
      read(R"({"step":1,"loss":null,"new":{"loss":[1,{"step":9}]},"lr":"fast"})"
           "\n\n"
           R"({"note":"without a step"})"
           "\n");
  ASSERT_EQ(run.updates.size(), 1);
  EXPECT_EQ(run.updates[0].step, 1);
  EXPECT_TRUE(std::isnan(run.updates[0].loss));
  EXPECT_TRUE(std::isnan(run.updates[0].lr));
  EXPECT_TRUE(run.waiting(run.updates[0]).empty());
  EXPECT_TRUE(std::isnan(run.overlap()));
}

TEST_F(RunLogTest, TheLaterLineOfAStepCounts) {
  const RunLog run = read(R"({"step":1,"loss":1}
{"step":2,"loss":2}
{"step":3,"loss":3}
{"step":2,"eval":{"loss":7}}
{"step":2,"loss":20}
{"step":2,"eval":{"loss":8}}
{"step":4,"loss":4}
)");
  std::vector<std::pair<int64_t, float>> losses;
  for (const auto& update : run.updates) {
    losses.emplace_back(update.step, update.loss);
  }
  const decltype(losses) expected{{1, 1}, {2, 20}, {3, 3}, {4, 4}};
  EXPECT_EQ(losses, expected);
  ASSERT_EQ(run.evaluations.size(), 1);
  EXPECT_EQ(run.evaluations[0].loss, 8.0F);
}

TEST_F(RunLogTest, ALastLineThatIsNotWholeIsPassedOver) {
  const std::string whole(kUpdate);
  for (size_t length = 1; length < whole.size(); length += 7) {
    const RunLog run = read(whole + "\n" + whole.substr(0, length));
    ASSERT_EQ(run.updates.size(), 1) << length;
    ASSERT_EQ(run.updates[0].loss, 4.25F) << length;
  }
}

TEST_F(RunLogTest, ABrokenLineInTheMiddleIsNamed) {
  for (const char* broken :
       {"{\"step\":", "[1]", "[{\"eval\":{}}]", "7", "\xff"}) {
    const std::string metrics =
        "{\"step\":1}\n" + std::string(broken) + "\n{\"step\":2}\n";
    EXPECT_THROW(read(metrics), CorruptionError) << broken;
    const std::string text = error_of([&] { read(metrics); });
    EXPECT_TRUE(has(text, "metrics.jsonl' is damaged: line 2 ")) << text;
  }
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THROW(
      read("{\"step\":1,\"x\":" + deep + "}\n{\"step\":2}\n"), CorruptionError);
}

TEST_F(RunLogTest, AFolderWithoutMetricsSaysWhatARunFolderHas) {
  EXPECT_THROW(read(), IoError);
  const std::string text = error_of([&] { read(); });
  EXPECT_TRUE(has(text, "is no run folder, which has metrics.jsonl")) << text;
  EXPECT_TRUE(has(text, "Fix: ")) << text;
}

TEST_F(RunLogTest, FactsAndSettingsKeepTheirOrder) {
  write("run.json", R"({"model":"GPT","parameters":803968,"ended":null})");
  write(
      "config.json",
      R"({"b":{"y":[1,2],"x":[{"z":0.001}]},"a":"text","none":{}})");
  const RunLog run = read("");
  const auto joined = [](const std::vector<Fact>& facts) {
    std::string text;
    for (const auto& fact : facts) {
      text += fact.name + "=" + fact.value + ";";
    }
    return text;
  };
  EXPECT_EQ(joined(run.facts), "model=GPT;parameters=803968;ended=null;");
  EXPECT_EQ(joined(run.settings), "b.y=[1,2];b.x.0.z=0.001;a=text;none={};");
  EXPECT_TRUE(has(run.config, "\n  \"a\": \"text\"")) << run.config;
  EXPECT_EQ(run.name, folder_.path().filename());
  EXPECT_EQ(read_run(folder_.path() / "").name, run.name);
}

TEST_F(RunLogTest, ABrokenConfigurationIsNamed) {
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const auto& broken : {std::string("{"), std::string(), deep}) {
    write("config.json", broken);
    EXPECT_THROW(read(""), CorruptionError) << broken;
    const std::string text = error_of([&] { read(""); });
    EXPECT_TRUE(has(text, "config.json' is no JSON")) << text;
  }
}

TEST_F(RunLogTest, OverlapStaysWithinItsBounds) {
  const RunLog run =
      read(R"({"step":1,"seconds":2,"ranks":{"waiting":[9]}})"
           "\n"
           R"({"step":2,"ranks":{"waiting":[1,null]}})"
           "\n"
           R"({"step":3,"seconds":1,"ranks":{"waiting":[1]}})"
           "\n"
           R"({"step":4,"seconds":1,"ranks":{"waiting":[0,0,0]}})"
           "\n"
           R"({"step":5,"seconds":1,"ranks":{"waiting":[5]}})"
           "\n");
  EXPECT_TRUE(std::isnan(run.overlap(run.updates[0])));
  EXPECT_EQ(run.overlap(run.updates[1]), 0.75);
  EXPECT_TRUE(std::isnan(run.overlap(run.updates[2])));
  EXPECT_EQ(run.overlap(run.updates[3]), 1);
  EXPECT_EQ(run.overlap(run.updates[4]), 0);
  EXPECT_EQ(run.overlap(), 0.25); // 6 s of 8
  EXPECT_EQ(run.updates[3].num_ranks, 3);
}

TEST(Curves, WhatIsNotFiniteDoesNotCount) {
  const Points points{{1, 5}, {2, kNoValue}, {3, 1}, {4, 3}};
  EXPECT_EQ(lowest(points), 1);
  EXPECT_EQ(highest(points), 5);
  EXPECT_EQ(median(points), 3);
  EXPECT_FALSE(is_empty(points));
  EXPECT_TRUE(is_empty({{1, kNoValue}}));
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Curves, SmoothIsTheMeanOfTheLastFew) {
  Points points;
  for (int i = 0; i < 150; ++i) {
    points.push_back({.x = double(i), .y = i == 100 ? kNoValue : double(i)});
  }
  ASSERT_EQ(smooth_over(points), 3);
  const Points smooth = smoothed(points);
  EXPECT_EQ(smooth[0].y, 0);
  EXPECT_EQ(smooth[1].y, 0.5);
  EXPECT_EQ(smooth[50].y, 49);
  EXPECT_TRUE(std::isnan(smooth[100].y));
  EXPECT_EQ(smooth[101].y, 100); // of 99 and 101
}

} // namespace
} // namespace zero::report

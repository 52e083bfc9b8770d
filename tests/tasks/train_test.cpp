// Real runs of `zero train`, small ones.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::tasks {
namespace {

using nlohmann::json;
using test::has;
using test::Job;
using test::Strings;

class TrainTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 400; ++i) {
      text << "the cat sat on the mat, and so did the dog. ";
    }
  }

  std::string path(const std::string& name) const {
    return folder_.path() / name;
  }

  json gpt() const {
    return {
        {"model",
         {{"type", "gpt"},
          {"n_layer", 2},
          {"n_head", 2},
          {"n_embd", 16},
          {"block_size", 16}}},
        {"data", {{"type", "text"}, {"path", path("text.txt")}}},
        {"train",
         {{"steps", 30}, {"evaluate_every", 15}, {"evaluate_samples", 20}}},
        {"train_batch_size", 4},
        {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.01}}}}},
        {"zero_optimization", {{"stage", 3}}}};
  }

  // Images of two classes that differ in brightness, in CIFAR-10's files.
  void write_images() const {
    std::filesystem::create_directories(path("cifar"));
    for (const char* name :
         {"data_batch_1",
          "data_batch_2",
          "data_batch_3",
          "data_batch_4",
          "data_batch_5",
          "test_batch"}) {
      std::ofstream file(path("cifar") + "/" + name + ".bin", std::ios::binary);
      for (int i = 0; i < 8; ++i) {
        const int label = i % 2;
        file.put(static_cast<char>(label));
        for (int pixel = 0; pixel < 3072; ++pixel) {
          file.put(static_cast<char>(label * 150 + pixel * 7 % 50));
        }
      }
    }
  }

  Strings command(
      const json& config,
      int ranks,
      const std::string& out,
      const Strings& more = {}) const {
    const std::string file = path(out + ".json");
    std::ofstream(file) << config.dump(2);
    Strings result{
        test::zero_program(),
        "train",
        file,
        "-n",
        std::to_string(ranks),
        "--out",
        path(out)};
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }

  std::vector<json> metrics(const std::string& out) const {
    std::ifstream file(path(out) + "/metrics.jsonl");
    std::vector<json> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(json::parse(line));
    }
    return lines;
  }

  std::vector<double> losses(const std::string& out) const {
    std::vector<double> values;
    for (const auto& line : metrics(out)) {
      if (!line.contains("eval")) {
        values.push_back(line["loss"]);
      }
    }
    return values;
  }

  test::TemporaryFolder folder_;
};

TEST_F(TrainTest, AGptLearnsAndLeavesAllThatWasPromised) {
  Job job(command(gpt(), 2, "run", {"--trace"}));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.out(), "step 30/30")) << job.out();
  EXPECT_TRUE(has(job.out(), "evaluation after step 30")) << job.out();

  const auto lines = metrics("run");
  ASSERT_EQ(lines.size(), 32);
  for (const char* key :
       {"step",
        "loss",
        "lr",
        "grad_norm",
        "seconds",
        "samples_per_second",
        "memory",
        "traffic",
        "ranks"}) {
    EXPECT_TRUE(lines[0].contains(key)) << key;
  }
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_GT(lines[0]["memory"]["optimizer"], 0);
  EXPECT_EQ(lines[0]["ranks"]["waiting"].size(), 2);
  EXPECT_LT(
      lines[30]["loss"].get<double>(), 0.8 * lines[0]["loss"].get<double>());
  EXPECT_LT(
      lines[31]["eval"]["loss"].get<double>(),
      lines[15]["eval"]["loss"].get<double>());
  EXPECT_NEAR(
      lines[31]["eval"]["perplexity"].get<double>(),
      std::exp(lines[31]["eval"]["loss"].get<double>()),
      1e-9);

  for (const char* name :
       {"config.json",
        "run.json",
        "report.html",
        "trace.json",
        "model/model.safetensors",
        "model/config.json",
        "best/config.json",
        "best/model.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(path("run") + "/" + name)) << name;
  }
  const auto facts = json::parse(test::read_file(path("run") + "/run.json"));
  EXPECT_EQ(facts["ended"], "finished");
  EXPECT_EQ(facts["ranks"], 2);
  const auto config =
      json::parse(test::read_file(path("run") + "/config.json"));
  EXPECT_EQ(config["zero_optimization"]["stage"], 3);
  EXPECT_EQ(config["model"]["n_layer"], 2);
}

TEST_F(TrainTest, StagesAndRanksGiveTheSameCurve) {
  const auto run = [&](int stage, int ranks) {
    const std::string name =
        "stage" + std::to_string(stage) + "-" + std::to_string(ranks);
    json config = gpt();
    config["zero_optimization"]["stage"] = stage;
    config["train"]["evaluate_every"] = 0;
    Job job(command(config, ranks, name));
    EXPECT_EQ(job.wait(), 0) << job.err();
    return losses(name);
  };
  const auto expected = run(0, 1);
  ASSERT_EQ(expected.size(), 30);
  for (const auto& [stage, ranks] :
       std::vector<std::pair<int, int>>{{0, 2}, {2, 2}, {3, 4}}) {
    const auto found = run(stage, ranks);
    ASSERT_EQ(found.size(), 30);
    for (size_t i = 0; i < 30; ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i])
          << "stage " << stage << ", step " << i + 1;
    }
  }
}

TEST_F(TrainTest, TextIsGeneratedAlikeOnAnyNumberOfRanks) {
  json config = gpt();
  config["model"]["vocab_size"] = 64; // more than the text has characters
  config["train"]["sample_tokens"] = 20;
  Job job(command(config, 1, "run"));
  ASSERT_EQ(job.wait(), 0) << job.err();
  const auto generate = [&](const Strings& more) {
    Strings command{
        test::zero_program(),
        "generate",
        path("run"),
        "--prompt",
        "the ",
        "--tokens",
        "40"};
    command.insert(command.end(), more.begin(), more.end());
    Job generating(command);
    EXPECT_EQ(generating.wait(), 0) << generating.err();
    return generating.out();
  };
  const std::string text = generate({"--seed", "3"});
  EXPECT_EQ(text.size(), 45); // prompt, tokens, the end of the line
  EXPECT_EQ(text.find("the "), 0);
  EXPECT_EQ(generate({"--seed", "3", "-n", "2"}), text);
  EXPECT_NE(generate({"--seed", "4"}), text);
}

TEST_F(TrainTest, AResNetLearns) {
  write_images();
  const json config{
      {"model", {{"type", "resnet"}, {"depth", 18}, {"stem", "small"}}},
      {"data",
       {{"type", "cifar10"},
        {"path", path("cifar")},
        {"crop_padding", 4},
        {"flip", true}}},
      {"train", {{"epochs", 1}, {"label_smoothing", 0.1}}},
      {"train_batch_size", 8},
      {"optimizer",
       {{"type", "SGD"},
        {"params", {{"lr", 0.02}, {"momentum", 0.9}, {"nesterov", true}}}}},
      {"zero_optimization", {{"stage", 2}}}};
  Job job(command(config, 2, "run"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  const auto lines = metrics("run");
  ASSERT_EQ(lines.size(), 6); // 40 images in batches of 8, and an evaluation
  EXPECT_EQ(lines[5]["samples"], 8);
  EXPECT_GE(lines[5]["eval"]["accuracy"].get<double>(), 0);
  EXPECT_LE(lines[5]["eval"]["accuracy"].get<double>(), 1);
  EXPECT_GE(
      lines[5]["eval"]["top5"].get<double>(),
      lines[5]["eval"]["accuracy"].get<double>());
}

TEST_F(TrainTest, ALossThatIsNotFiniteStopsAllRanks) {
  json config = gpt();
  config["optimizer"]["params"]["lr"] = 1e30;
  config["gradient_clipping"] = 0;
  Job job(command(config, 2, "run"));
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.err(), "step ")) << job.err();
  EXPECT_TRUE(has(job.err(), "Parameters are as they were")) << job.err();
  const auto lines = metrics("run"); // those before it, whole
  EXPECT_GE(lines.size(), 1);
  const auto facts = json::parse(test::read_file(path("run") + "/run.json"));
  EXPECT_TRUE(has(facts["ended"], "failed")) << facts;
}

TEST_F(TrainTest, CtrlCFinishesTheStepAndKeepsWhatThereIs) {
  json config = gpt();
  config["train"]["steps"] = 1'000'000;
  config["train"]["evaluate_every"] = 0;
  Job job(command(config, 2, "run"));
  ASSERT_TRUE(job.prints("step 10/")) << job.out() << job.err();
  job.kill(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT) << job.err();
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.out(), "interrupted after")) << job.out() << job.err();
  const auto lines = metrics("run");
  EXPECT_GE(lines.size(), 11);
  EXPECT_TRUE(lines.back().contains("eval"));
  EXPECT_TRUE(
      std::filesystem::exists(path("run") + "/model/model.safetensors"));
  const auto facts = json::parse(test::read_file(path("run") + "/run.json"));
  EXPECT_EQ(facts["ended"], "interrupted");
}

TEST_F(TrainTest, NoRoomForMetricsIsOneErrorAndLosesNoLine) {
  std::filesystem::create_directories(path("run"));
  // A small disk that nobody else sees.
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", path("run").c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "this user may not mount a small disk";
  }
  Job job(command(gpt(), 2, "run"));
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.err(), "cannot write '")) << job.err();
  EXPECT_GE(metrics("run").size(), 1); // each of them whole
  ::umount(path("run").c_str());
}

TEST_F(TrainTest, TheExampleOfTheReadmeRuns) {
  const auto example = std::filesystem::path(__FILE__)
                           .parent_path()
                           .parent_path()
                           .parent_path() /
      "examples" / "train" / "shakespeare_char.json";
  Job job(
      {test::zero_program(),
       "train",
       example,
       "-n",
       "2",
       "--out",
       path("run"),
       "--set",
       "data.path=" + path("text.txt"),
       "--set",
       "train.steps=3",
       "--set",
       "train.evaluate_samples=4"});
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_TRUE(has(job.out(), "finished after 3 steps")) << job.out();
  EXPECT_FALSE(metrics("run").back()["text"].get<std::string>().empty());
}

TEST_F(TrainTest, MistakesAreFoundBeforeAnythingIsStarted) {
  json config = gpt();
  config["train_batch_size"] = 5; // for 2 ranks
  Job odd(command(config, 2, "odd"));
  EXPECT_EQ(odd.wait(), 2);
  EXPECT_TRUE(has(odd.err(), "train_batch_size 5")) << odd.err();
  EXPECT_FALSE(std::filesystem::exists(path("odd")));

  std::filesystem::create_directories(path("full"));
  std::ofstream(path("full") + "/metrics.jsonl") << "{}\n";
  Job again(command(gpt(), 2, "full"));
  EXPECT_EQ(again.wait(), 2);
  EXPECT_TRUE(has(again.err(), "has a run already")) << again.err();
  EXPECT_EQ(test::read_file(path("full") + "/metrics.jsonl"), "{}\n");
}

TEST_F(TrainTest, DataThatIsWrongIsOneErrorOfAllRanks) {
  json config = gpt();
  config["model"]["block_size"] = 1'000'000;
  Job job(command(config, 2, "run"));
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(job.nothing_left());
  const std::string words = "sequences of 1000000 tokens need";
  const std::string err = job.err();
  EXPECT_TRUE(has(err, words)) << err;
}

} // namespace
} // namespace zero::tasks

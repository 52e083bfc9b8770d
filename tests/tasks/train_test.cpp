// Real runs of `zero train`, small ones.
#include <sched.h>
#include <sys/mount.h>

#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "data/make_image.h"
#include "tasks/train_fixture.h"

namespace zero::tasks {
namespace {

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
  const auto facts = facts_of("run");
  EXPECT_EQ(facts["ended"], "finished");
  EXPECT_EQ(facts["ranks"], 2);
  const auto config =
      json::parse(test::read_file(path("run") + "/config.json"));
  EXPECT_EQ(config["zero_optimization"]["stage"], 3);
  EXPECT_EQ(config["model"]["n_layer"], 2);
}

TEST_F(TrainTest, TheTraceHasEveryStepOfEveryRank) {
  json config = gpt();
  config["train"]["steps"] = 3;
  Job job(command(config, 2, "run", {"--trace"}));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  const auto trace = json::parse(test::read_file(path("run") + "/trace.json"));
  std::map<std::string, std::map<int, int>> counts; // by name and rank
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      ++counts[event["name"]][event["pid"]];
    }
  }
  EXPECT_EQ(counts["step"], (std::map<int, int>{{0, 3}, {1, 3}}));
  EXPECT_EQ(counts["backward"], (std::map<int, int>{{0, 3}, {1, 3}}));
  for (const char* name : {"forward", "update", "reduce", "wait", "load"}) {
    EXPECT_EQ(counts[name].size(), 2) << name;
  }
}

TEST_F(TrainTest, TokensOfAFileAreCheckedBeforeTraining) {
  json config = gpt();
  std::vector<uint16_t> tokens(4000, 3);
  tokens[3999] = 70;
  std::ofstream(path("train.bin"), std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), 8000);
  config["data"] = {{"type", "tokens"}, {"path", path("train.bin")}};
  config["model"]["vocab_size"] = 70;
  Job job(command(config, 2, "run"));
  EXPECT_NE(job.wait(), 0);
  EXPECT_EQ(num_lines_with(job.err(), "has 70 as token 3999"), 1) << job.err();
  EXPECT_FALSE(has(job.out(), "step 1")) << job.out();
}

TEST_F(TrainTest, TheTokenizerBesideAFileOfTokensIsUsed) {
  Job preparing(
      {test::zero_program(), "data", path("text.txt"), "--out", path("data")});
  ASSERT_EQ(preparing.wait(), 0) << preparing.err();
  json config = gpt();
  config["data"] = {
      {"type", "tokens"},
      {"path", path("data") + "/train.bin"},
      {"validation_path", path("data") + "/val.bin"}};
  config["train"]["sample_tokens"] = 5;
  Job job(command(config, 2, "run"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_EQ(metrics("run").back()["text"].get<std::string>().size(), 6);
  EXPECT_TRUE(
      std::filesystem::exists(path("run") + "/model/libzero_tokenizer.json"));
}

TEST_F(TrainTest, ARankThatIsKilledIsNamedOnce) {
  Job job(command(endless(), 2, "run"));
  ::kill(ranks_at_work(job)[1], SIGKILL);
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.err(), "rank 1")) << job.err();
  EXPECT_FALSE(has(job.err(), "shrink")) << job.err();
  EXPECT_TRUE(std::filesystem::exists(path("run") + "/report.html"));
}

// The one that would have said it.
TEST_F(TrainTest, ARunWhoseFirstRankIsKilledIsNotCalledRunning) {
  Job job(command(endless(), 2, "run"));
  ::kill(ranks_at_work(job)[0], SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  const auto facts = facts_of("run");
  EXPECT_EQ(facts["ended"], "failed: its processes ended with code 137");
  EXPECT_TRUE(std::filesystem::exists(path("run") + "/report.html"));
}

TEST_F(TrainTest, WhatCannotBePrintedIsAnErrorAtTheEnd) {
  json config = gpt();
  config["train"]["steps"] = 2;
  Strings words = command(config, 1, "run");
  std::string line = "exec \"$0\" \"$@\" > /dev/full";
  words.insert(words.begin(), {"bash", "-c", line});
  Job job(words);
  EXPECT_NE(job.wait(), 0);
  EXPECT_EQ(metrics("run").size(), 3); // the run is whole

  const Strings alone{
      "bash",
      "-c",
      line,
      test::zero_program(),
      "train",
      path("run.json"),
      "--out",
      path("alone")};
  Job one(alone);
  EXPECT_EQ(one.wait(), 1);
  EXPECT_TRUE(has(one.err(), "output was lost")) << one.err();
  EXPECT_EQ(metrics("alone").size(), 3);
}

// Of a model that is loaded, the tokens have to be the data's.
TEST_F(TrainTest, ALoadedModelBringsItsTokenizer) {
  Job first(command(gpt(), 1, "first"));
  ASSERT_EQ(first.wait(), 0) << first.err();
  std::ofstream(path("other.txt")) << std::string(3000, 'x') << "yz";
  Job prepare(
      {test::zero_program(),
       "data",
       path("other.txt"),
       "--out",
       path("other")});
  ASSERT_EQ(prepare.wait(), 0) << prepare.err();

  json config = gpt();
  config["model"] = {{"type", "gpt"}, {"load", path("first") + "/best"}};
  config["data"] = {{"type", "tokens"}, {"path", path("other") + "/train.bin"}};
  Job wrong(command(config, 2, "wrong"));
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_EQ(num_lines_with(wrong.err(), "are not those that the loaded"), 1)
      << wrong.err();
  EXPECT_FALSE(std::filesystem::exists(path("wrong"))); // nothing was begun

  // Without one of their own, they are taken for the model's.
  std::filesystem::remove(path("other") + "/libzero_tokenizer.json");
  Job tuned(command(config, 2, "tuned"));
  EXPECT_EQ(tuned.wait(), 0) << tuned.err();
  EXPECT_EQ(
      test::read_file(path("tuned") + "/best/libzero_tokenizer.json"),
      test::read_file(path("first") + "/best/libzero_tokenizer.json"));

  config["data"] = gpt()["data"];
  Job explained(command(config, 2, "explained", {"--print-config"}));
  EXPECT_EQ(explained.wait(), 0);
  EXPECT_TRUE(has(explained.out(), "model.n_layer = 2 ")) << explained.out();
  EXPECT_EQ(num_lines_with(explained.out(), "  model.load"), 6)
      << explained.out();

  config["data"]["tokenizer"] = "byte";
  config["model"]["n_headd"] = 3; // and what else is wrong
  Job both(command(config, 2, "both", {"--set", "bogus"}));
  EXPECT_EQ(both.wait(), 2);
  EXPECT_TRUE(has(both.err(), "3 mistakes")) << both.err();

  config["model"] = {{"type", "gpt"}, {"load", path("first")}}; // the run
  Job run(command(config, 2, "run"));
  EXPECT_EQ(run.wait(), 2);
  EXPECT_TRUE(has(run.err(), "a run of zero train has them in best/"))
      << run.err();
}

TEST_F(TrainTest, ARunThatWasKilledAtItsBeginningCanBeReplaced) {
  std::filesystem::create_directories(path("run"));
  std::ofstream(path("run") + "/run.json") << R"({"ended": "running"})";
  std::ofstream(path("run") + "/config.json") << "{}";
  Job again(command(gpt(), 2, "run", {"--overwrite"}));
  EXPECT_EQ(again.wait(), 0) << again.err();
}

TEST_F(TrainTest, AModelThatHasDivergedIsNotCalledFinished) {
  json config = gpt();
  config["optimizer"]["params"]["lr"] = 1e30;
  config["train"] = {// so that a rank has nothing to evaluate
                     {"steps", 1},
                     {"sample_tokens", 5},
                     {"evaluate_samples", 1}};
  Job job(command(config, 2, "run"));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(num_lines_with(job.err(), "the model has diverged"), 1)
      << job.err();
  EXPECT_TRUE(
      has(test::read_file(path("run") + "/report.html"),
          "<strong>failed: the loss of the evaluation"));
}

// Nor by one that cannot be begun, nor by one that begins with it.
TEST_F(TrainTest, AnOldRunIsNotLostBeforeTheNewOneBegins) {
  Job first(command(gpt(), 2, "run"));
  ASSERT_EQ(first.wait(), 0) << first.err();
  json config = gpt();
  config["libzero"]["parameter_groups"] = {
      {{"match", "nothing.*"}, {"weight_decay", 0}}};
  Job wrong(command(config, 2, "run", {"--overwrite"}));
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_EQ(num_lines_with(wrong.err(), "nothing.*"), 1) << wrong.err();
  EXPECT_TRUE(std::filesystem::exists(path("run") + "/best/model.safetensors"));

  config = gpt();
  config["model"] = {{"type", "gpt"}, {"load", path("run") + "/best"}};
  Job tuned(command(config, 2, "run", {"--overwrite"}));
  EXPECT_EQ(tuned.wait(), 0) << tuned.err();
}

TEST_F(TrainTest, ARunThatIsRefusedLeavesTheOtherOneAlone) {
  const json config = endless();
  Job job(command(config, 2, "run"));
  ASSERT_TRUE(job.prints("step 10/")) << job.out() << job.err();
  Job other(command(config, 2, "run", {"--overwrite"}));
  EXPECT_EQ(other.wait(), 2);
  EXPECT_TRUE(has(other.err(), "another run is at work")) << other.err();
  const auto facts = facts_of("run");
  EXPECT_EQ(facts["ended"], "running");
  ::kill(job.pid(), SIGINT);
  EXPECT_EQ(job.wait(), 130);
}

TEST_F(TrainTest, NobodyHasToLookOn) {
  Strings words = command(gpt(), 2, "run");
  words.insert(words.begin(), {"bash", "-c", "\"$0\" \"$@\" | head -1"});
  Job job(words);
  EXPECT_EQ(job.wait(), 0) << job.err();
  const auto facts = facts_of("run");
  EXPECT_EQ(facts["ended"], "finished");
}

TEST_F(TrainTest, AReportDoesNotReplaceWhatItShows) {
  json config = gpt();
  config["train"]["steps"] = 2;
  Job job(command(config, 1, "run"));
  ASSERT_EQ(job.wait(), 0) << job.err();
  const std::string before = test::read_file(path("run") + "/metrics.jsonl");
  Job compare(
      {test::zero_program(),
       "compare",
       path("run"),
       "--out",
       path("run") + "/metrics.jsonl"});
  EXPECT_EQ(compare.wait(), 2);
  EXPECT_TRUE(has(compare.err(), "is a file of a run")) << compare.err();
  EXPECT_EQ(test::read_file(path("run") + "/metrics.jsonl"), before);
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

TEST_F(TrainTest, AModelThatIsLoadedBringsItsSizes) {
  Job first(command(gpt(), 1, "first"));
  ASSERT_EQ(first.wait(), 0) << first.err();
  json config = gpt();
  config["model"] = {{"type", "gpt"}, {"load", path("first") + "/model"}};
  config["train"] = {{"steps", 1}};
  Job tuned(command(config, 2, "tuned"));
  ASSERT_EQ(tuned.wait(), 0) << tuned.err();
  const auto used =
      json::parse(test::read_file(path("tuned") + "/config.json"));
  EXPECT_EQ(used["model"]["n_layer"], 2);
  EXPECT_EQ(used["model"]["n_embd"], 16);
  EXPECT_EQ(used["model"]["block_size"], 16);
  // Characters keep their numbers, though this text has fewer of them.
  std::ofstream(path("few.txt")) << std::string(3000, 't');
  json few = config;
  few["data"]["path"] = path("few.txt");
  Job fewer(command(few, 1, "fewer"));
  ASSERT_EQ(fewer.wait(), 0) << fewer.err();
  EXPECT_EQ(
      test::read_file(path("fewer") + "/model/libzero_tokenizer.json"),
      test::read_file(path("first") + "/model/libzero_tokenizer.json"));
  Job again(
      {test::zero_program(),
       "train",
       path("tuned") + "/config.json",
       "-n",
       "2",
       "--out",
       path("again")});
  EXPECT_EQ(again.wait(), 0) << again.err();

  config["model"]["n_layer"] = 5;
  config["model"]["block_size"] = 64;
  Job wrong(command(config, 2, "wrong"));
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_TRUE(has(wrong.err(), "model.n_layer: got 5, expected 2"))
      << wrong.err();
  EXPECT_TRUE(has(wrong.err(), "model.block_size: got 64, expected at most 16"))
      << wrong.err();
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

TEST_F(TrainTest, ABatchThatCannotBeTrainedOnIsToldOf) {
  write_images();
  json config{
      {"model", {{"type", "resnet"}}},
      {"data", {{"type", "cifar10"}, {"path", path("cifar")}}},
      {"train", {{"steps", 1}}},
      {"train_batch_size", 2}};
  Job one(command(config, 2, "one"));
  EXPECT_EQ(one.wait(), 2);
  EXPECT_EQ(num_lines_with(one.err(), "needs at least 2 of them"), 1)
      << one.err();
  config["train_batch_size"] = 1'000'000'000;
  Job huge(command(config, 2, "huge"));
  EXPECT_EQ(huge.wait(), 2);
  EXPECT_EQ(num_lines_with(huge.err(), "500000000 images at a time"), 1)
      << huge.err();
}

TEST_F(TrainTest, FoldersOfImagesAreDecodedAsTheyAreNeeded) {
  const auto write_image = [&](const std::string& name, int brightness) {
    const auto file = std::filesystem::path(path("images")) / name;
    std::filesystem::create_directories(file.parent_path());
    const std::vector<uint8_t> pixels(
        size_t{40} * 40 * 3, static_cast<uint8_t>(brightness));
    std::ofstream(file, std::ios::binary)
        << test::make_png({.width = 40, .height = 40}, pixels);
  };
  for (int i = 0; i < 8; ++i) {
    const std::string name = "/" + std::to_string(i) + ".png";
    write_image("train/bright" + name, 200 + i);
    write_image("train/dark" + name, 30 + i);
    write_image("train/grey" + name, 120 + i);
  }
  write_image("val/dark/1.png", 31); // numbered as in training
  json config{
      {"model", {{"type", "resnet"}, {"stem", "small"}}},
      {"data", {{"type", "images"}, {"path", path("images")}, {"size", 32}}},
      {"train", {{"steps", 6}}},
      {"train_batch_size", 8},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}}};
  Job job(command(config, 2, "run"));
  ASSERT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_TRUE(has(job.out(), "24 images of 3 x 32 x 32 to train on, 1 to"))
      << job.out();
  EXPECT_TRUE(has(job.out(), "no image of the class 'bright' to evaluate"))
      << job.out();
  const auto about =
      json::parse(test::read_file(path("run") + "/best/config.json"));
  EXPECT_EQ(about["class_names"], (Strings{"bright", "dark", "grey"}));
  EXPECT_EQ(about["image_mean"].size(), 3);

  write_image("val/green/1.png", 31);
  Job other(command(config, 2, "other"));
  EXPECT_EQ(other.wait(), 2);
  EXPECT_EQ(num_lines_with(other.err(), "has the class 'green'"), 1)
      << other.err();

  // What goes wrong in the evaluation does not cost the model.
  std::filesystem::remove_all(path("images") + "/val/green");
  std::ofstream(path("images") + "/val/dark/2.png") << "no image";
  Job trained(command(config, 2, "trained"));
  EXPECT_NE(trained.wait(), 0);
  EXPECT_EQ(num_lines_with(trained.err(), "dark/2.png' cannot be used"), 1)
      << trained.err();
  EXPECT_TRUE(
      std::filesystem::exists(path("trained") + "/model/model.safetensors"));

  std::ofstream(path("images") + "/train/dark/3.png") << "no image";
  config["train"]["steps"] = 20;
  config["data"]["mean"] = {0.5};
  config["data"]["std"] = {0.5};
  Job broken(command(config, 2, "broken"));
  EXPECT_NE(broken.wait(), 0);
  EXPECT_TRUE(broken.nothing_left());
  EXPECT_EQ(num_lines_with(broken.err(), "dark/3.png' cannot be used"), 1)
      << broken.err();
  EXPECT_TRUE(has( // whichever rank it was
      test::read_file(path("broken") + "/run.json"),
      "dark/3.png"));
  EXPECT_TRUE(
      std::filesystem::exists(path("broken") + "/model/model.safetensors"));
}

TEST_F(TrainTest, ALossThatIsNotFiniteStopsAllRanks) {
  json config = gpt();
  config["optimizer"]["params"]["lr"] = 1e30;
  config["gradient_clipping"] = 0;
  Job job(command(config, 2, "run"));
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.err(), "step ")) << job.err();
  EXPECT_EQ(num_lines_with(job.err(), "Parameters are as they were"), 1)
      << job.err();
  EXPECT_FALSE(has(job.err(), "shrink")) << job.err();
  const auto lines = metrics("run"); // those before it, whole
  EXPECT_GE(lines.size(), 1);
  const auto facts = facts_of("run");
  EXPECT_TRUE(has(facts["ended"], "failed")) << facts;
  EXPECT_TRUE(
      std::filesystem::exists(path("run") + "/model/model.safetensors"));
}

TEST_F(TrainTest, CtrlCFinishesTheStepAndKeepsWhatThereIs) {
  const json config = endless();
  Job job(command(config, 2, "run"));
  ASSERT_TRUE(job.prints("step 10/")) << job.out() << job.err();
  job.kill(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT) << job.err();
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.out(), "interrupted after")) << job.out() << job.err();
  const auto lines = metrics("run");
  EXPECT_GE(lines.size(), 11);
  EXPECT_FALSE(lines.back().contains("eval")); // whoever stops wants to go
  EXPECT_TRUE(
      std::filesystem::exists(path("run") + "/model/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(path("run") + "/.libzero-run.lock"));
  const auto facts = facts_of("run");
  EXPECT_EQ(facts["ended"], "interrupted");
}

// As timeout(1) has it, which tells the program and then its group.
TEST_F(TrainTest, ARequestThatComesTwiceIsOne) {
  const json config = endless();
  for (const int milliseconds : {0, 1, 10}) {
    const std::string name = "run" + std::to_string(milliseconds);
    Job job(command(config, 2, name));
    ASSERT_TRUE(job.prints("step 10/")) << job.out() << job.err();
    ::kill(job.pid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::kill(job.pid(), SIGTERM);
    job.wait();
    EXPECT_TRUE(
        std::filesystem::exists(path(name) + "/model/model.safetensors"));
    const auto facts = facts_of(name);
    EXPECT_EQ(facts["ended"], "interrupted") << milliseconds;
  }
}

TEST_F(TrainTest, CtrlCEndsAnEvaluationToo) {
  std::ofstream text(path("text.txt"), std::ios::app);
  for (int i = 0; i < 100'000; ++i) { // minutes to evaluate
    text << "the cat sat on the mat, and so did the dog. ";
  }
  text.close();
  json config = gpt();
  config["train"] = {{"steps", 2}, {"report_every", 2}};
  Job job(command(config, 2, "run"));
  ASSERT_TRUE(job.prints("step 2/")) << job.out() << job.err();
  job.kill(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT) << job.err();
  EXPECT_TRUE(has(job.out(), "interrupted after 2 steps")) << job.out();
  EXPECT_EQ(metrics("run").size(), 2);
  EXPECT_TRUE(
      std::filesystem::exists(path("run") + "/model/model.safetensors"));
}

TEST_F(TrainTest, NoRoomForMetricsIsOneErrorAndLosesNoLine) {
  std::filesystem::create_directories(path("run"));
  // A small disk that nobody else sees.
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", path("run").c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "this user may not mount a small disk";
  }
  json config = gpt();
  config["train"] = {{"steps", 1'000'000}};
  Job job(command(config, 2, "run"));
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(job.nothing_left());
  EXPECT_TRUE(has(job.err(), "cannot write '")) << job.err();
  EXPECT_TRUE(has(job.err(), "metrics.jsonl")) << job.err();
  EXPECT_FALSE(has(job.err(), "run.json")) << job.err();
  EXPECT_EQ(num_lines_with(job.err(), "No space left"), 1) << job.err();
  EXPECT_FALSE(has(job.err(), "shrink")) << job.err();
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
  EXPECT_TRUE(has(odd.err(), "odd.json:")) << odd.err(); // and the line
  EXPECT_FALSE(std::filesystem::exists(path("odd")));

  std::filesystem::create_directories(path("full"));
  std::ofstream(path("full") + "/metrics.jsonl") << "{}\n";
  std::ofstream(path("full") + "/run.json") << R"({"ended": "finished"})";
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
  std::string words =
      "run.json:7: model.block_size: a sequence of 1000000 tokens";
  EXPECT_EQ(num_lines_with(job.err(), words), 1) << job.err();

  // What only the data shows is said where it was asked for.
  config = gpt();
  config["data"]["validation_share"] = 0.0001;
  Job short_end(command(config, 2, "short_end"));
  EXPECT_EQ(short_end.wait(), 2);
  words = "short_end.json:5: data.validation_share: this part of the text has";
  EXPECT_EQ(num_lines_with(short_end.err(), words), 1) << short_end.err();

  config = gpt();
  config["train"]["sample_tokens"] = 5;
  config["train"]["sample_prompt"] = "é";
  Job prompt(command(config, 2, "prompt"));
  EXPECT_EQ(prompt.wait(), 2);
  words = ": train.sample_prompt: ";
  EXPECT_EQ(num_lines_with(prompt.err(), words), 1) << prompt.err();

  config = gpt();
  config["model"]["vocab_size"] = 5;
  Job vocabulary(command(config, 2, "vocabulary"));
  EXPECT_EQ(vocabulary.wait(), 2);
  words = ": model.vocab_size: the tokenizer has";
  EXPECT_EQ(num_lines_with(vocabulary.err(), words), 1) << vocabulary.err();
}

} // namespace
} // namespace zero::tasks

#include "tasks/train_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::tasks {
namespace {

using test::error_of;
using test::has;

class TrainConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(text_) << "some text";
  }

  std::string gpt(const std::string& more = "") const {
    return R"({
  "model": {"type": "gpt", "n_layer": 2},
  "data": {"type": "text", "path": ")" +
        text_ + R"("},
  "train": {"steps": 10}
  )" + more +
        "}";
  }

  static TrainConfig read(
      const std::string& json,
      const std::vector<std::string>& settings = {}) {
    return TrainConfig::from_json(json, "run.json", settings);
  }

  test::TemporaryFolder folder_;
  std::string text_ = folder_.path() / "text.txt";
};

TEST_F(TrainConfigTest, SectionsOfTheEngineAndTheTrainerAreOneFile) {
  const TrainConfig config =
      read(gpt(R"(, "zero_optimization": {"stage": 3})"));
  EXPECT_EQ(config.zero.zero_optimization.stage, 3);
  EXPECT_EQ(config.model.n_layer, 2);
  EXPECT_EQ(config.model.n_head, 12);
  EXPECT_EQ(config.data.path, text_);
  EXPECT_EQ(config.train.steps, 10);
}

TEST_F(TrainConfigTest, WhatIsWrittenIsReadBackAlike) {
  const TrainConfig config = read(gpt(), {"model.dropout=0.25"});
  const std::string json = config.to_json();
  EXPECT_EQ(read(json).to_json(), json);
  EXPECT_TRUE(has(json, "\"dropout\": 0.25")) << json;
}

TEST_F(TrainConfigTest, SettingsGoBeforeTheFile) {
  const TrainConfig config =
      read(gpt(), {"train.steps=99", "optimizer.type=SGD", "model.n_head=3"});
  EXPECT_EQ(config.train.steps, 99);
  EXPECT_EQ(config.zero.optimizer.type, OptimizerConfig::Type::sgd);
  EXPECT_EQ(config.model.n_head, 3);
}

TEST_F(TrainConfigTest, EveryValueHasAnOrigin) {
  const std::string text = read(gpt(), {"train.seed=5"}).explain();
  const auto line_with = [&](const std::string& start) {
    const size_t begin = text.find(start);
    return begin == std::string::npos
        ? "no line " + start
        : text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_TRUE(has(line_with("model.n_layer = 2"), "run.json:2"));
  EXPECT_TRUE(has(line_with("train.steps = 10"), "run.json:4"));
  EXPECT_TRUE(has(line_with("train.seed = 5"), "--set"));
  EXPECT_TRUE(has(line_with("model.n_head = 12"), "default"));
  EXPECT_TRUE(has(line_with("optimizer.params.lr = 0.001"), "default"));
}

TEST_F(TrainConfigTest, AllMistakesOfAllSectionsAreToldAtOnce) {
  const std::string error = error_of([] {
    read(R"({
  "model": {"type": "gpt", "n_layers": 2, "n_embd": 100, "n_head": 3},
  "data": {"type": "txt", "path": "/no/such/file"},
  "train": {"steps": 0, "epochs": 3},
  "zero_optimization": {"stage": 7}
})");
  });
  for (const char* part :
       {"run.json:2: model.n_layers: unknown key, did you mean n_layer?",
        "model.n_embd: got 100, expected a multiple of n_head",
        "run.json:3: data.type: got \"txt\"",
        "run.json:3: data.path: there is no \"/no/such/file\"",
        "run.json:4: train.steps",
        "run.json:5: zero_optimization.stage"}) {
    EXPECT_TRUE(has(error, part)) << part << " in\n" << error;
  }
}

TEST_F(TrainConfigTest, WhatDoesNotFitTogetherIsTold) {
  const auto error = [&](const std::vector<std::string>& settings) {
    return error_of([&] { read(gpt(), settings); });
  };
  EXPECT_TRUE(has(error({"data.type=cifar10"}), "a gpt learns from"));
  EXPECT_TRUE(has(error({"model.type=resnet"}), "a resnet learns from"));
  EXPECT_TRUE(has(error({"data.tokenizer=gpt2"}), "\"vocab\" and \"merges\""));
  EXPECT_TRUE(has(error({"data.type=tokens"}), "model.vocab_size: missing"));
  EXPECT_TRUE(has(error({"data.vocab=" + text_}), "data.vocab: given alone"));
  EXPECT_TRUE(has(error({"data.merges=" + text_}), "data.merges: given alone"));
  EXPECT_TRUE(
      has(error({"data.vocab=" + text_, "data.merges=" + text_}),
          "the tokenizer has no files"));
  EXPECT_TRUE(has(error({"train.epochs=2"}), "remove one of them"));
  EXPECT_TRUE(has(error({"train.steps=null"}), "how long to train"));
  EXPECT_TRUE(has(error({"train.steps=-1"}), "with --set: train.steps"));
}

TEST_F(TrainConfigTest, TheFileIsOneThatCanBeReadTwice) {
  const std::string path = folder_.path() / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(
      has(error_of([&] { TrainConfig::from_file(path); }), "no regular file"));
  EXPECT_TRUE(
      has(error_of([&] { TrainConfig::from_file(folder_.path()); }),
          "it is a folder"));
}

TEST_F(TrainConfigTest, TheTokenizerBesideTokensKnowsTheVocabulary) {
  std::ofstream(folder_.path() / "libzero_tokenizer.json")
      << R"({"type": "byte"})";
  read(gpt(), {"data.type=tokens"});
}

TEST_F(TrainConfigTest, TheExamplesAreWithoutMistakes) {
  const auto examples = std::filesystem::path(__FILE__)
                            .parent_path()
                            .parent_path()
                            .parent_path() /
      "examples" / "train";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(examples)) {
    const auto config =
        TrainConfig::from_file(entry.path(), {"data.path=" + text_});
    EXPECT_EQ(config.zero.batch_sizes(2).accumulation, 1) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST_F(TrainConfigTest, MissingSectionsAreNamed) {
  const std::string error = error_of([] { read("{}"); });
  EXPECT_TRUE(has(error, "model: missing, what is trained")) << error;
  EXPECT_TRUE(has(error, "data: missing")) << error;
  EXPECT_TRUE(has(error, "train: missing")) << error;
}

} // namespace
} // namespace zero::tasks

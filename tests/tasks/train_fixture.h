// Defines TrainTest: what real runs of `zero train` are tested with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::tasks {

using nlohmann::json;
using test::has;
using test::Job;
using test::Strings;

inline int num_lines_with(const std::string& text, const std::string& words) {
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    count += has(line, words) ? 1 : 0;
  }
  return count;
}

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

  // To be ended by a test.
  json endless() const {
    json config = gpt();
    config["train"]["steps"] = 1'000'000;
    config["train"]["evaluate_every"] = 0;
    return config;
  }

  // Those of two, in their order, when they train.
  static std::vector<pid_t> ranks_at_work(Job& job) {
    EXPECT_TRUE(job.prints("step 10/")) << job.out() << job.err();
    auto ranks = job.children_of(job.supervisor());
    EXPECT_EQ(ranks.size(), 2);
    ranks.resize(2);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  json facts_of(const std::string& out) const {
    return json::parse(test::read_file(path(out) + "/run.json"));
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

  // Each step once.
  std::map<int64_t, double> losses_by_step(const std::string& out) const {
    std::map<int64_t, double> losses;
    for (const auto& line : metrics(out)) {
      if (line.contains("loss")) {
        EXPECT_FALSE(losses.contains(line["step"])) << line;
        losses[line["step"]] = line["loss"];
      }
    }
    return losses;
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

} // namespace zero::tasks

#include "models/gpt_folder.h"

#include <gtest/gtest.h>
#include <torch/utils.h>
#include <zero/zero.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_writer.h"
#include "engine/error_of.h"
#include "engine/models.h"
#include "launch/job.h"

namespace zero::models {
namespace {

using test::error_of;
using test::has;
using test::TemporaryFolder;

constexpr GptOptions kOptions{
    .vocabulary = 40,
    .max_length = 12,
    .width = 16,
    .num_layers = 2,
    .num_heads = 2,
    .dropout = 0};

TEST(GptFolder, WhatIsExportedIsLoadedWithTheSameLogits) {
  const TemporaryFolder folder;
  torch::manual_seed(1);
  Gpt gpt(kOptions);
  gpt->eval();
  const auto tokens = test::random_ints(40, {2, 12}, 1);
  const auto expected = gpt->forward(tokens).detach();
  std::ofstream(folder.path() / "config.json") << gpt_config_json(kOptions);
  {
    Config config;
    config.zero_optimization.stage = 3;
    const Engine engine(init(), gpt.ptr(), config);
    engine.export_safetensors(folder.path() / "model.safetensors");
  }
  auto loaded = load_gpt(folder.path());
  loaded->eval();
  EXPECT_EQ(loaded->options().num_heads, 2);
  EXPECT_TRUE(at::equal(loaded->forward(tokens), expected));
}

// Without the prefix, with masks and with the output layer.
TEST(GptFolder, PublishedNamesAreUnderstood) {
  const TemporaryFolder folder;
  Gpt gpt(kOptions);
  std::ofstream(folder.path() / "config.json") << gpt_config_json(kOptions);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : gpt->named_parameters()) {
    const std::string name = item.key();
    tensors.emplace_back(
        name.substr(std::string("transformer.").size()), item.value().detach());
  }
  tensors.emplace_back("h.0.attn.bias", at::ones({1, 1, 12, 12}));
  tensors.emplace_back("h.1.attn.masked_bias", at::ones({}));
  tensors.emplace_back("lm_head.weight", at::ones({40, 16}));
  std::vector<checkpoint::TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  checkpoint::SafetensorsWriter writer(
      folder.path() / "model.safetensors", entries);
  for (const auto& [name, tensor] : tensors) {
    writer.write(tensor.const_data_ptr(), tensor.nbytes());
  }
  writer.commit();
  auto loaded = load_gpt(folder.path());
  const auto tokens = test::random_ints(40, {1, 5}, 2);
  EXPECT_TRUE(at::equal(loaded->forward(tokens), gpt->forward(tokens)));
}

// As large models are published.
TEST(GptFolder, WeightsOfSeveralFilesAreFound) {
  const TemporaryFolder folder;
  Gpt gpt(kOptions);
  std::ofstream(folder.path() / "config.json") << gpt_config_json(kOptions);
  nlohmann::json map;
  int number = 0;
  for (const auto& item : gpt->named_parameters()) {
    const std::string file =
        "model-0000" + std::to_string(++number % 3) + "-of-00003.safetensors";
    map[item.key()] = file;
  }
  for (const char* digit : {"0", "1", "2"}) {
    const std::string file =
        std::string("model-0000") + digit + "-of-00003.safetensors";
    std::vector<checkpoint::TensorEntry> entries;
    std::vector<at::Tensor> tensors;
    for (const auto& item : gpt->named_parameters()) {
      if (map[item.key()] == file) {
        tensors.push_back(item.value().detach());
        entries.push_back(
            {item.key(), at::kFloat, tensors.back().sizes().vec()});
      }
    }
    checkpoint::SafetensorsWriter writer(folder.path() / file, entries);
    for (const auto& tensor : tensors) {
      writer.write(tensor.const_data_ptr(), tensor.nbytes());
    }
    writer.commit();
  }
  const auto list = folder.path() / "model.safetensors.index.json";
  std::ofstream(list) << nlohmann::json{{"weight_map", map}};
  EXPECT_TRUE(has_weights(folder.path()));
  auto loaded = load_gpt(folder.path());
  const auto tokens = test::random_ints(40, {1, 5}, 2);
  EXPECT_TRUE(at::equal(loaded->forward(tokens), gpt->forward(tokens)));

  std::ofstream(list) << R"({"weight_map": {"a": "../other.safetensors"}})";
  EXPECT_TRUE(
      has(error_of([&] { load_gpt(folder.path()); }),
          "expected the name of a file beside it"));
  std::ofstream(list) << "[]";
  EXPECT_TRUE(
      has(error_of([&] { load_gpt(folder.path()); }),
          "expected an object with weight_map"));
}

TEST(GptFolder, TheConfigurationIsHuggingFaces) {
  const auto config = nlohmann::json::parse(gpt_config_json(kOptions));
  EXPECT_EQ(config.at("model_type"), "gpt2");
  EXPECT_EQ(config.at("architectures").at(0), "GPT2LMHeadModel");
  EXPECT_EQ(config.at("n_embd"), 16);
  const auto options = gpt_options_from_json(gpt_config_json(kOptions), "here");
  EXPECT_EQ(options.vocabulary, 40);
  EXPECT_EQ(options.max_length, 12);
  EXPECT_EQ(options.width, 16);
  EXPECT_EQ(options.num_layers, 2);
  EXPECT_EQ(options.dropout, 0);
  // Defaults are those of GPT-2.
  EXPECT_EQ(
      gpt_options_from_json(R"({"model_type": "gpt2"})", "here").width, 768);
  EXPECT_EQ(
      gpt_options_from_json(
          R"({"model_type": "gpt2", "n_inner": null})", "here")
          .num_layers,
      12);
}

TEST(GptFolder, OtherArchitecturesAreRefusedWithAllReasons) {
  const std::string text = error_of([] {
    gpt_options_from_json(
        R"({
  "model_type": "llama",
  "activation_function": "relu",
  "n_layer": 0,
  "n_inner": 100,
  "scale_attn_by_inverse_layer_idx": true
})",
        "config.json");
  });
  for (const std::string part :
       {"model_type",
        "\"llama\"",
        "activation_function",
        "n_layer",
        "n_inner",
        "scale_attn_by_inverse_layer_idx",
        ":4"}) {
    EXPECT_TRUE(has(text, part)) << part << " in " << text;
  }
}

TEST(GptFolder, AFolderThatIsNotThereIsNamed) {
  const std::string text = error_of([] { load_gpt("/nowhere"); });
  EXPECT_TRUE(has(text, "/nowhere/config.json")) << text;
}

} // namespace
} // namespace zero::models

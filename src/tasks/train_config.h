// Defines TrainConfig: all that `zero train` does, from one file. The engine's
// keys are DeepSpeed's (zero/config.h); "model", "data" and "train" are the
// trainer's own. docs/trainer.md lists them.
//
//   TrainConfig config = TrainConfig::from_file("gpt.json",
//   {"train.steps=10"}); config.zero.optimizer.lr; config.model.n_layer;
//
// All mistakes of all sections are reported at once, before anything is begun.
#pragma once

#include <zero/config.h>
#include <zero/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/places.h"
#include "data/choose_tokenizer.h"
#include "models/resnet.h"

namespace zero::tasks {

struct ModelConfig {
  enum class Type { gpt, resnet };
  Type type = Type::gpt;
  // To begin with: a model folder of Hugging Face, or a safetensors file.
  std::optional<std::string> load;

  // gpt
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;
  int64_t block_size = 1024;
  std::optional<int64_t> vocab_size; // the tokenizer's
  double dropout = 0;

  // resnet
  int depth = 18;
  models::ResNetOptions::Stem stem = models::ResNetOptions::Stem::imagenet;
  std::optional<int64_t> num_classes; // the data's
};

struct DataConfig {
  enum class Type { text, tokens, cifar10, idx, images };
  Type type = Type::text;
  std::string path; // a file, or the folder of several
  std::optional<std::string> validation_path;

  // text, tokens: the end of the file is for evaluation, unless there is a file
  double validation_share = 0.1;
  data::TokenizerChoice tokenizer;

  // images
  int64_t size = 224; // of folders, whose images have many sizes
  int64_t crop_padding = 0;
  bool flip = false;
  std::vector<double> mean; // of the data set, unless given
  std::vector<double> std;
};

// Where the tokenizer of a file of tokens is kept, if it is.
std::string tokenizer_folder(const DataConfig& data);

struct TrainSection {
  enum class BatchOnLoss { keep, shrink };

  std::optional<int64_t> steps; // this, or epochs
  std::optional<double> epochs;
  int64_t seed = 0;
  double label_smoothing = 0; // images
  int64_t evaluate_every = 0; // steps; 0: at the end only
  std::optional<int64_t> evaluate_samples; // all
  int64_t report_every = 10; // steps
  // Checkpoints, to go on from: at the end, when the run is stopped, and
  int64_t save_every = 0; // steps; 0: not by steps
  double save_minutes = 0; // 0: not by time
  bool save_at_end = true;
  int keep_checkpoints = 2; // the newest; 0: all
  // When a rank is lost and the others go on: they take its samples over, or
  // the batch has fewer.
  BatchOnLoss batch_on_loss = BatchOnLoss::keep;
  // text: generated after each evaluation, and kept with its results
  int64_t sample_tokens = 0;
  std::string sample_prompt; // empty: the first token of the text
};

struct TrainConfig {
  // `settings` are "key.key=value" and come last; a value that is not JSON is
  // a text. Throws: ConfigError naming every mistake and its line; IoError.
  // With `num_ranks` above 0 the batch has to fit them.
  static TrainConfig from_file(
      const std::string& path,
      const std::vector<std::string>& settings = {},
      int num_ranks = 0);
  static TrainConfig from_json(
      std::string_view text,
      const std::string& origin,
      const std::vector<std::string>& settings = {},
      int num_ranks = 0);

  Config zero;
  ModelConfig model;
  DataConfig data;
  TrainSection train;

  // What from_json() reads as this configuration.
  std::string to_json() const;

  // Each key, its value, and where that is from: a line of the file, --set, or
  // nowhere.
  std::string explain() const;

  // Does what a key asks for. What then turns out to be a mistake, since it
  // does not fit the data or a loaded model, is shown where the key stands.
  template <class Action>
  auto as_asked_by(const std::string& key, const Action& action) const {
    try {
      return action();
    } catch (const ConfigError& error) {
      throw ConfigError(places_.describe(key) + ": " + error.what());
    }
  }

 private:
  config::Places places_;
};

} // namespace zero::tasks

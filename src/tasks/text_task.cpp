// Learns what comes next in a text.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "base/quantity.h"
#include "data/bpe_tokenizer.h"
#include "data/token_file.h"
#include "data/token_windows.h"
#include "data/tokenizer.h"
#include "data/tokenizer_folder.h"
#include "models/generate.h"
#include "models/gpt.h"
#include "models/gpt_folder.h"
#include "tasks/task.h"

namespace zero::tasks {

using data::TokenFile;
using data::Tokenizer;
using data::TokenWindows;

namespace {

constexpr size_t kMaxTextBytes = size_t{4} << 30;

std::unique_ptr<Tokenizer> make_tokenizer(
    const DataConfig& config,
    const std::string& text) {
  switch (config.tokenizer) {
    case DataConfig::Tokenizer::byte:
      return data::make_byte_tokenizer();
    case DataConfig::Tokenizer::gpt2:
      return data::read_bpe_tokenizer(*config.vocab, *config.merges);
    case DataConfig::Tokenizer::character:
      break;
  }
  return data::make_character_tokenizer(text);
}

// The tokens to train on and those to evaluate with, and what they mean.
class Corpus {
 public:
  explicit Corpus(const DataConfig& config) {
    if (config.type == DataConfig::Type::text) {
      read_text(config);
    } else {
      map_files(config);
    }
  }

  // Nothing if the files have tokens only, and nobody says what they mean.
  const Tokenizer* tokenizer() const {
    return tokenizer_.get();
  }

  int64_t num_training_tokens() const {
    return training_.numel();
  }
  int64_t num_evaluation_tokens() const {
    return evaluation_.numel();
  }

  TokenWindows training_windows(int64_t length, int64_t vocabulary) const {
    return windows(training_, length, vocabulary);
  }
  TokenWindows evaluation_windows(int64_t length, int64_t vocabulary) const {
    return windows(evaluation_, length, vocabulary);
  }

 private:
  // In memory, or a range of a file.
  struct Part {
    at::Tensor tokens;
    std::shared_ptr<const TokenFile> file;
    int64_t begin = 0;
    int64_t end = 0;

    int64_t numel() const {
      return end - begin;
    }
  };

  void read_text(const DataConfig& config) {
    const std::string text = read_whole(config.path);
    const std::string more =
        config.validation_path ? read_whole(*config.validation_path) : "";
    tokenizer_ = make_tokenizer(config, text + more);
    const at::Tensor all = encode(text);
    training_ = {all, nullptr, 0, all.numel()};
    if (config.validation_path) {
      const at::Tensor tokens = encode(more);
      evaluation_ = {tokens, nullptr, 0, tokens.numel()};
    } else {
      cut_end_off(config.validation_share);
    }
  }

  void map_files(const DataConfig& config) {
    training_.file = std::make_shared<TokenFile>(config.path);
    training_.end = training_.file->num_tokens();
    if (config.validation_path) {
      evaluation_.file = std::make_shared<TokenFile>(*config.validation_path);
      evaluation_.end = evaluation_.file->num_tokens();
    } else {
      cut_end_off(config.validation_share);
    }
    if (config.vocab && config.merges) {
      tokenizer_ = data::read_bpe_tokenizer(*config.vocab, *config.merges);
    }
  }

  void cut_end_off(double share) {
    evaluation_ = training_;
    training_.end =
        std::llround(static_cast<double>(training_.end) * (1 - share));
    evaluation_.begin = training_.end;
  }

  static std::string read_whole(const std::string& path) {
    std::string text = base::read_file(path, "the text " + path, kMaxTextBytes);
    if (text.empty() || text.size() > kMaxTextBytes) {
      throw ConfigError(c10::str(
          "the text ",
          path,
          text.empty()
              ? " is empty. Fix: give a file with text"
              : " has more than 4 GiB. Fix: make tokens of it with zero data"));
    }
    return text;
  }

  at::Tensor encode(const std::string& text) const {
    return at::tensor(tokenizer_->encode(text), at::kLong);
  }

  static TokenWindows windows(
      const Part& part,
      int64_t length,
      int64_t vocabulary) {
    return part.file == nullptr
        ? TokenWindows(part.tokens.slice(0, part.begin, part.end), length)
        : TokenWindows(part.file, part.begin, part.end, length, vocabulary);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  Part training_;
  Part evaluation_;
};

models::Gpt make_gpt(const TrainConfig& config, const Tokenizer* tokenizer) {
  const ModelConfig& model = config.model;
  const std::optional<int64_t> known = tokenizer == nullptr
      ? std::nullopt
      : std::optional(tokenizer->vocabulary());
  models::Gpt gpt = model.load
      ? models::load_gpt(*model.load, model.dropout)
      : models::Gpt(models::GptOptions{
            .vocabulary = model.vocab_size.value_or(known.value_or(0)),
            .max_length = model.block_size,
            .width = model.n_embd,
            .num_layers = model.n_layer,
            .num_heads = model.n_head,
            .dropout = model.dropout});
  if (known && *known > gpt->options().vocabulary) {
    throw ConfigError(c10::str(
        "the tokenizer has ",
        *known,
        " tokens, the model ",
        gpt->options().vocabulary,
        ". Fix: ",
        model.load ? "use the tokenizer that the loaded model was trained with"
                   : "set model.vocab_size to at least as many, or leave it "
                     "out"));
  }
  return gpt;
}

class TextTask final : public Task {
 public:
  explicit TextTask(const TrainConfig& config)
      : corpus_(config.data),
        gpt_(make_gpt(config, corpus_.tokenizer())),
        length_(std::min(config.model.block_size, gpt_->options().max_length)),
        training_(corpus_.training_windows(length_, vocabulary())),
        evaluation_(corpus_.evaluation_windows(length_, vocabulary())),
        train_(config.train) {
    if (corpus_.tokenizer() != nullptr && train_.sample_tokens > 0) {
      prompt_ = train_.sample_prompt.empty()
          ? first_token()
          : corpus_.tokenizer()->encode(train_.sample_prompt);
    }
  }

  std::shared_ptr<torch::nn::Module> module() const override {
    return gpt_.ptr();
  }

  std::string describe_model() const override {
    const auto& options = gpt_->options();
    return c10::str(
        "GPT: ",
        options.num_layers,
        " layers, ",
        options.num_heads,
        " heads, width ",
        options.width,
        ", sequences of ",
        length_,
        ", vocabulary ",
        base::grouped(options.vocabulary));
  }

  std::string describe_data() const override {
    return c10::str(
        base::grouped(corpus_.num_training_tokens()),
        " tokens to train on, ",
        base::grouped(corpus_.num_evaluation_tokens()),
        " to evaluate with");
  }

  int64_t num_training_samples() const override {
    return training_.num_samples();
  }

  // Every token once, unless fewer are asked for.
  int64_t num_evaluation_samples() const override {
    const int64_t all =
        std::max<int64_t>(1, corpus_.num_evaluation_tokens() / length_);
    return train_.evaluate_samples.value_or(
        std::min(all, evaluation_.num_samples()));
  }

  int64_t sample_length() const override {
    return length_;
  }
  const char* sample_name() const override {
    return "sequences";
  }

  Batch training_batch(
      const std::vector<int64_t>& samples,
      int64_t /*position*/) const override {
    const auto batch = training_.batch(samples);
    return {batch.inputs, batch.targets};
  }

  // Spread evenly over the text.
  Batch evaluation_batch(int64_t begin, int64_t end) const override {
    const auto places = evaluation_.num_samples();
    const auto count = num_evaluation_samples();
    const double stride = count > 1
        ? static_cast<double>(places - 1) / static_cast<double>(count - 1)
        : 0;
    std::vector<int64_t> samples;
    for (int64_t i = begin; i < end; ++i) {
      samples.push_back(static_cast<int64_t>(stride * static_cast<double>(i)));
    }
    const auto batch = evaluation_.batch(samples);
    return {batch.inputs, batch.targets};
  }

  at::Tensor loss(const Batch& batch) override {
    const at::Tensor logits = gpt_->forward(batch.inputs);
    return at::cross_entropy_loss(
        logits.flatten(0, 1), batch.targets.flatten());
  }

  Sums measure(const Batch& batch) override {
    const auto count = static_cast<double>(batch.targets.numel());
    return {count, loss(batch).item<double>() * count};
  }

  Results results(const Sums& sums) const override {
    const double mean = sums[1] / sums[0];
    return {{"loss", mean}, {"perplexity", std::exp(mean)}};
  }

  std::string sample() override {
    if (prompt_.empty()) {
      return {};
    }
    std::vector<int64_t> tokens = prompt_;
    models::generate(
        gpt_,
        prompt_,
        {.num_tokens = train_.sample_tokens,
         .seed = static_cast<uint64_t>(train_.seed),
         .num_known = corpus_.tokenizer()->vocabulary()},
        [&](int64_t token) {
          tokens.push_back(token);
          return true;
        });
    return corpus_.tokenizer()->decode(tokens);
  }

  void write_model_files(const std::string& folder) const override {
    base::write_file(
        folder + "/config.json", models::gpt_config_json(gpt_->options()));
    if (corpus_.tokenizer() != nullptr) {
      data::write_tokenizer(*corpus_.tokenizer(), folder);
    }
  }

 private:
  int64_t vocabulary() const {
    return gpt_->options().vocabulary;
  }
  std::vector<int64_t> first_token() const {
    return {training_.batch({0}).inputs[0][0].item<int64_t>()};
  }

  Corpus corpus_;
  models::Gpt gpt_;
  int64_t length_; // of a sequence
  TokenWindows training_;
  TokenWindows evaluation_;
  TrainSection train_;
  std::vector<int64_t> prompt_; // of samples
};

} // namespace

std::unique_ptr<Task> make_text_task(const TrainConfig& config) {
  return std::make_unique<TextTask>(config);
}

} // namespace zero::tasks

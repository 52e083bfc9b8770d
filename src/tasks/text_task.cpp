// Learns what comes next in a text.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "data/bpe_tokenizer.h"
#include "data/choose_tokenizer.h"
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

// The tokens to train on and those to evaluate with, and what they mean.
class Corpus {
 public:
  explicit Corpus(const TrainConfig& config) {
    const auto& load = config.model.load;
    if (load && data::has_tokenizer(*load)) {
      known_ = data::read_tokenizer(*load);
    }
    if (config.data.type == DataConfig::Type::text) {
      read_text(config.data);
    } else {
      map_files(config.data);
    }
    if (known_ && tokenizer_ && !data::have_same_tokens(*known_, *tokenizer_)) {
      config.as_asked_by("model.load", [] {
        throw ConfigError(
            "the tokens of the data are not those that the loaded model was "
            "trained with. Fix: use the tokenizer that is beside the model");
      });
    }
    if (!tokenizer_) {
      tokenizer_ = std::move(known_);
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

  // Those of a file that takes long to read are looked at when they are used.
  void check_tokens(int64_t vocabulary) const {
    constexpr int64_t kSoonRead = int64_t{1} << 28;
    for (const Part* part : {&training_, &evaluation_}) {
      if (part->file != nullptr && part->file->num_tokens() <= kSoonRead) {
        part->file->check_all(vocabulary);
      }
    }
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
    tokenizer_ = known_ && !config.tokenizer.vocab
        ? std::move(known_)
        : data::choose_tokenizer(config.tokenizer, text + more);
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
    const std::string folder = tokenizer_folder(config);
    if (config.tokenizer.vocab) {
      tokenizer_ = data::read_bpe_tokenizer(
          *config.tokenizer.vocab, *config.tokenizer.merges);
    } else if (data::has_tokenizer(folder)) {
      tokenizer_ = data::read_tokenizer(folder);
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

  std::unique_ptr<Tokenizer> known_; // to the model that is loaded
  std::unique_ptr<Tokenizer> tokenizer_;
  Part training_;
  Part evaluation_;
};

// Memory that is not there is given all the same, and then there is no end of
// swapping.
void check_memory_for(const models::GptOptions& options) {
  const auto width = static_cast<double>(options.width);
  const double numel =
      width * static_cast<double>(options.vocabulary + options.max_length) +
      12 * width * width * static_cast<double>(options.num_layers);
  const auto bytes = numel * sizeof(float);
  if (bytes > static_cast<double>(base::available_memory())) {
    throw ConfigError(c10::str(
        "a GPT of these sizes has ",
        base::in_short(numel),
        " parameters, more than memory holds. Fix: give it fewer layers, or a "
        "smaller width or vocabulary"));
  }
}

models::Gpt make_gpt(const TrainConfig& config, const Corpus& corpus) {
  const Tokenizer* tokenizer = corpus.tokenizer();
  const ModelConfig& model = config.model;
  const std::optional<int64_t> known = tokenizer == nullptr
      ? std::nullopt
      : std::optional(tokenizer->vocabulary());
  const models::GptOptions options{
      .vocabulary = model.vocab_size.value_or(known.value_or(0)),
      .max_length = model.block_size,
      .width = model.n_embd,
      .num_layers = model.n_layer,
      .num_heads = model.n_head,
      .dropout = model.dropout};
  config.as_asked_by("model", [&] { check_memory_for(options); });
  if (!model.load && corpus.num_training_tokens() <= model.block_size) {
    config.as_asked_by("model.block_size", [&] {
      throw ConfigError(c10::str(
          "a sequence of ",
          model.block_size,
          " tokens and one more are needed, there are ",
          corpus.num_training_tokens(),
          " to train on. Fix: use more text, or shorter sequences"));
    });
  }
  const char* key = model.load ? "model.load" : "model.vocab_size";
  return config.as_asked_by(key, [&] {
    models::Gpt gpt = model.load ? models::load_gpt(*model.load, model.dropout)
                                 : models::Gpt(options);
    if (known && *known > gpt->options().vocabulary) {
      throw ConfigError(c10::str(
          "the tokenizer has ",
          *known,
          " tokens, the model ",
          gpt->options().vocabulary,
          ". Fix: ",
          model.load
              ? "use the tokenizer that the loaded model was trained with"
              : "set it to at least as many, or leave it out"));
    }
    return gpt;
  });
}

class TextTask final : public Task {
 public:
  explicit TextTask(const TrainConfig& config)
      : corpus_(config),
        gpt_(make_gpt(config, corpus_)),
        length_(std::min(config.model.block_size, gpt_->options().max_length)),
        training_(config.as_asked_by(
            "data.path",
            [&] { return corpus_.training_windows(length_, vocabulary()); })),
        evaluation_(config.as_asked_by(
            evaluation_key(config.data),
            [&] { return corpus_.evaluation_windows(length_, vocabulary()); })),
        train_(config.train) {
    corpus_.check_tokens(vocabulary());
    if (corpus_.tokenizer() == nullptr && train_.sample_tokens > 0) {
      notes_.emplace_back(
          "note     no tokenizer is beside the tokens: no samples are written");
    }
    if (corpus_.tokenizer() != nullptr && train_.sample_tokens > 0) {
      prompt_ = train_.sample_prompt.empty()
          ? first_token()
          : config.as_asked_by("train.sample_prompt", [&] {
              return corpus_.tokenizer()->encode(train_.sample_prompt);
            });
    }
  }

  std::shared_ptr<torch::nn::Module> module() const override {
    return gpt_.ptr();
  }

  std::vector<std::string> notes() const override {
    return notes_;
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

  // Every token once, unless a number is asked for.
  int64_t num_evaluation_samples() const override {
    return train_.evaluate_samples
        ? std::min(*train_.evaluate_samples, evaluation_.num_samples())
        : evaluation_.num_windows();
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

  Batch evaluation_batch(int64_t begin, int64_t end) const override {
    std::vector<int64_t> samples;
    for (int64_t i = begin; i < end; ++i) {
      samples.push_back(
          train_.evaluate_samples
              ? spread(i, num_evaluation_samples(), evaluation_.num_samples())
              : i);
    }
    const auto batch = train_.evaluate_samples ? evaluation_.batch(samples)
                                               : evaluation_.windows(samples);
    return {batch.inputs, batch.targets};
  }

  at::Tensor loss(const Batch& batch) override {
    const at::Tensor logits = gpt_->forward(batch.inputs);
    return at::cross_entropy_loss(
        logits.flatten(0, 1), batch.targets.flatten());
  }

  Sums measure(const Batch& batch) override {
    const auto count =
        batch.targets.ne(TokenWindows::kNoTarget).sum().item<double>();
    return {count, loss(batch).item<double>() * count};
  }

  Results results(const Sums& sums) const override {
    const double mean = sums[1] / sums[0];
    return {{"loss", mean}, {"perplexity", std::exp(mean)}};
  }

  std::string sample(const std::function<bool()>& goes_on) override {
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
          return goes_on();
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
  // What says which tokens to evaluate with.
  static const char* evaluation_key(const DataConfig& data) {
    return data.validation_path ? "data.validation_path"
                                : "data.validation_share";
  }
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
  std::vector<std::string> notes_;
};

} // namespace

std::unique_ptr<Task> make_text_task(const TrainConfig& config) {
  return std::make_unique<TextTask>(config);
}

} // namespace zero::tasks

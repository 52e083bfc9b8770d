#include "tasks/train_config.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file_io.h"
#include "config/field_checker.h"
#include "config/field_writer.h"
#include "config/parse_json.h"
#include "config/sections.h"
#include "config/settings.h"
#include "data/tokenizer_folder.h"
#include "models/gpt_folder.h"
#include "tasks/train_fields.h"

namespace zero::tasks {

using config::FieldChecker;
using config::FieldReader;
using config::FieldWriter;
using config::Json;
using config::kLoadedLine;
using config::Report;
using config::Section;

namespace {

void read_trainer(Section& root, TrainConfig& config) {
  root.require("model", "what is trained");
  root.require("data", "what it is trained on");
  root.require("train", "how long");
  Section model = root.section("model");
  Section data = root.section("data");
  Section train = root.section("train");
  if (model.is_given()) {
    model.require("type", R"("gpt" or "resnet")");
    visit_model(FieldReader(model), config.model);
  }
  if (data.is_given()) {
    data.require("type", "what the files are");
    data.require("path", "where the data is");
    visit_data(FieldReader(data), config.data);
  }
  if (train.is_given()) {
    visit_train(
        FieldReader(train),
        config.train,
        config.model.type == ModelConfig::Type::gpt);
  }
}

// The sizes are those of the model that is loaded. Those that are given have to
// be the same, but for shorter sequences.
void take_loaded_sizes(ModelConfig& model, Report& report) {
  const auto loaded = models::read_gpt_options(*model.load);
  const auto& given = report.places();
  const auto take = [&](const char* key, auto& value, int64_t found) {
    const std::string path = c10::str("model.", key);
    if (given.has(path) && !report.is_about(path) && value != found) {
      report.expected(
          path,
          c10::str(int64_t{value}),
          c10::str(found, ", as the model has that is loaded"),
          "remove the key");
    }
    value = found;
    report.place(path, kLoadedLine);
  };
  take("n_layer", model.n_layer, loaded.num_layers);
  take("n_head", model.n_head, loaded.num_heads);
  take("n_embd", model.n_embd, loaded.width);
  int64_t vocabulary = model.vocab_size.value_or(0);
  take("vocab_size", vocabulary, loaded.vocabulary);
  model.vocab_size = vocabulary;
  if (!given.has("model.block_size")) {
    model.block_size = loaded.max_length;
    report.place("model.block_size", kLoadedLine);
  } else if (model.block_size > loaded.max_length) {
    report.expected(
        "model.block_size",
        c10::str(model.block_size),
        c10::str("at most ", loaded.max_length, ", as the model was made for"));
  }
}

// Text is to have the tokens that the model knows.
void take_loaded_tokenizer(TrainConfig& config, Report& report) {
  constexpr const char* kKey = "data.tokenizer";
  if (config.data.type != DataConfig::Type::text ||
      !data::has_tokenizer(*config.model.load)) {
    return;
  }
  const auto kind = data::kind_of(*data::read_tokenizer(*config.model.load));
  if (!report.places().has(kKey)) {
    config.data.tokenizer.kind = kind;
    report.place(kKey, kLoadedLine);
  } else if (config.data.tokenizer.kind != kind) {
    report.add(
        kKey,
        "it is not the kind that the loaded model was trained with. Fix: remove "
        "the key, to use the tokenizer that is beside the model");
  }
}

void check_path(
    const std::optional<std::string>& path,
    const char* key,
    Report& report) {
  struct stat found = {};
  if (path && !report.is_about(key) && ::stat(path->c_str(), &found) != 0) {
    report.add(
        key,
        c10::str(
            "there is no ",
            config::in_quotes(*path),
            " (",
            std::strerror(errno),
            "). Fix: correct the path; it is relative to the current folder"));
  }
}

void check_model(const TrainConfig& config, Report& report) {
  const ModelConfig& model = config.model;
  visit_model(FieldChecker(report, "model"), model);
  check_path(model.load, "model.load", report);
  const bool is_gpt = model.type == ModelConfig::Type::gpt;
  if (is_gpt && model.n_head > 0 && model.n_embd % model.n_head != 0) {
    report.expected(
        "model.n_embd",
        std::to_string(model.n_embd),
        c10::str("a multiple of n_head, which is ", model.n_head));
  }
  if (!is_gpt && model.depth != 18 && model.depth != 34 && model.depth != 50) {
    report.expected("model.depth", std::to_string(model.depth), "18, 34 or 50");
  }
}

void check_data(const TrainConfig& config, Report& report) {
  const DataConfig& data = config.data;
  visit_data(FieldChecker(report, "data"), data);
  check_path(data.path, "data.path", report);
  check_path(data.validation_path, "data.validation_path", report);
  const auto& [tokenizer, vocab, merges] = data.tokenizer;
  check_path(vocab, "data.vocab", report);
  check_path(merges, "data.merges", report);
  const bool is_gpt = config.model.type == ModelConfig::Type::gpt;
  if (is_gpt != has_tokens(data.type)) {
    report.add(
        "data.type",
        is_gpt
            ? R"(a gpt learns from "text" or "tokens". Fix: choose one of them)"
            : R"(a resnet learns from "cifar10", "idx" or "images". Fix: choose one of them)");
  }
  const size_t num_channels = data.type == DataConfig::Type::idx ? 1 : 3;
  for (const auto& [key, values] :
       {std::pair("data.mean", &data.mean), std::pair("data.std", &data.std)}) {
    if (values->size() > 1 && values->size() != num_channels) {
      report.expected(
          key,
          c10::str(values->size(), " numbers"),
          c10::str("1, or one for each of ", num_channels, " channels"));
    }
  }
  const bool is_text = data.type == DataConfig::Type::text;
  const bool is_gpt2 = tokenizer == data::TokenizerKind::gpt2;
  const bool is_brought =
      config.model.load && data::has_tokenizer(*config.model.load);
  if (is_text && is_gpt2 && !vocab && !merges && !is_brought) {
    report.add(
        "data.tokenizer",
        R"("gpt2" needs its two files. Fix: add "vocab" and "merges", the paths of vocab.json and merges.txt)");
  } else if (vocab.has_value() != merges.has_value()) {
    report.add(
        vocab ? "data.vocab" : "data.merges",
        c10::str(
            "given alone, GPT-2's tokenizer has two files. Fix: add \"",
            vocab ? "merges" : "vocab",
            "\", too"));
  } else if (is_text && !is_gpt2 && vocab) {
    report.add(
        "data.vocab",
        R"(given, but the tokenizer has no files. Fix: remove it and "merges", or set "tokenizer" to "gpt2")");
  }
  if (data.type == DataConfig::Type::tokens && !config.model.vocab_size &&
      !config.model.load && !vocab &&
      !data::has_tokenizer(tokenizer_folder(data))) {
    report.add(
        "model.vocab_size",
        "missing, a file of tokens does not say how many there are, and no "
        "tokenizer is beside it. Fix: add the key");
  }
}

void check_train(const TrainConfig& config, Report& report) {
  constexpr double kMaxEpochs = 1e6;
  if (config.train.epochs.value_or(0) > kMaxEpochs) {
    report.expected(
        "train.epochs",
        c10::str(*config.train.epochs),
        "a number of at most 1000000");
  }
  visit_train(
      FieldChecker(report, "train"),
      config.train,
      config.model.type == ModelConfig::Type::gpt);
  if (config.train.steps.has_value() == config.train.epochs.has_value() &&
      !report.is_about("train.steps") && !report.is_about("train.epochs")) {
    report.add(
        "train.steps",
        config.train.steps
            ? "given together with epochs. Fix: remove one of them"
            : "missing, how long to train. Fix: add steps, or epochs");
  }
}

void check_batch(const Config& config, int num_ranks, Report& report) {
  constexpr const char* kKey = "train_batch_size";
  try {
    config.batch_sizes(num_ranks);
  } catch (const ConfigError& error) {
    if (!report.is_about(kKey)) {
      report.add(kKey, error.what());
    }
  }
}

Json trainer_json(const TrainConfig& config) {
  Json model = Json::object();
  Json data = Json::object();
  Json train = Json::object();
  visit_model(FieldWriter(model), config.model);
  visit_data(FieldWriter(data), config.data);
  visit_train(
      FieldWriter(train),
      config.train,
      config.model.type == ModelConfig::Type::gpt);
  return {{"model", model}, {"data", data}, {"train", train}};
}

Json effective(const TrainConfig& config) {
  Json all = trainer_json(config);
  all.update(Json::parse(config.zero.to_json()));
  return all;
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

} // namespace

std::string tokenizer_folder(const DataConfig& data) {
  const auto folder = std::filesystem::path(data.path).parent_path();
  return folder.empty() ? "." : folder.string();
}

TrainConfig TrainConfig::from_file(
    const std::string& path,
    const std::vector<std::string>& settings,
    int num_ranks) {
  return from_json(
      base::read_file(path, "the configuration " + path, config::kMaxJsonBytes),
      path,
      settings,
      num_ranks);
}

TrainConfig TrainConfig::from_json(
    std::string_view text,
    const std::string& origin,
    const std::vector<std::string>& settings,
    int num_ranks) {
  Report report(origin);
  config::JsonValue document = config::parse_json(text, origin, report);
  for (const std::string& setting : settings) {
    try {
      config::apply_setting(document, setting);
    } catch (const ConfigError& error) {
      report.add("", error.what());
    }
  }
  TrainConfig config;
  // A run that has gone wrong is not worth going on with.
  config.zero.libzero.on_nonfinite = LibzeroConfig::OnNonfinite::raise;
  Section root(report, &document, "");
  config::read_config(root, config.zero);
  read_trainer(root, config);
  config::check(config.zero, report);
  if (config.model.load && config.model.type == ModelConfig::Type::gpt &&
      std::filesystem::is_directory(*config.model.load)) {
    try {
      take_loaded_sizes(config.model, report);
      take_loaded_tokenizer(config, report);
    } catch (const Error& error) {
      report.add("model.load", error.what());
    }
  }
  if (document.is_object() && document.find("model") != nullptr &&
      document.find("data") != nullptr && document.find("train") != nullptr) {
    check_model(config, report);
    check_data(config, report);
    check_train(config, report);
  }
  if (num_ranks > 0) {
    check_batch(config.zero, num_ranks, report);
  }
  report.throw_if_any();
  config.places_ = report.places();
  return config;
}

std::string TrainConfig::to_json() const {
  return dump(effective(*this), 2) + "\n";
}

std::string TrainConfig::explain() const {
  std::string text;
  const auto explain_all = [&](const auto& self,
                               const std::string& path,
                               const Json& value) -> void {
    if (value.is_object()) {
      for (const auto& [key, element] : value.items()) {
        self(self, path.empty() ? key : path + "." + key, element);
      }
      return;
    }
    std::string line = path + " = " + dump(value, -1);
    line.resize(std::max<size_t>(line.size() + 2, 60), ' ');
    text += line + places_.source_of(path) + "\n";
  };
  explain_all(explain_all, "", effective(*this));
  return text;
}

} // namespace zero::tasks

#include "tasks/train_config.h"

#include <sys/stat.h>

#include "base/error.h"
#include "base/file_io.h"
#include "config/field_checker.h"
#include "config/field_writer.h"
#include "config/parse_json.h"
#include "config/sections.h"
#include "config/settings.h"
#include "tasks/train_fields.h"

namespace zero::tasks {

using config::FieldChecker;
using config::FieldReader;
using config::FieldWriter;
using config::Json;
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
  check_path(data.vocab, "data.vocab", report);
  check_path(data.merges, "data.merges", report);
  const bool is_gpt = config.model.type == ModelConfig::Type::gpt;
  if (is_gpt != has_tokens(data.type)) {
    report.add(
        "data.type",
        is_gpt
            ? R"(a gpt learns from "text" or "tokens". Fix: choose one of them)"
            : R"(a resnet learns from "cifar10", "idx" or "images". Fix: choose one of them)");
  }
  const bool needs_merges = data.type == DataConfig::Type::text &&
      data.tokenizer == DataConfig::Tokenizer::gpt2;
  if (needs_merges && (!data.vocab || !data.merges)) {
    report.add(
        "data.tokenizer",
        R"("gpt2" needs its two files. Fix: add "vocab" and "merges", the paths of vocab.json and merges.txt)");
  }
  if (data.type == DataConfig::Type::tokens && !config.model.vocab_size &&
      !config.model.load && !data.vocab) {
    report.add(
        "model.vocab_size",
        "missing, a file of tokens does not say how many there are. Fix: add "
        "the key");
  }
}

void check_train(const TrainConfig& config, Report& report) {
  visit_train(
      FieldChecker(report, "train"),
      config.train,
      config.model.type == ModelConfig::Type::gpt);
  if (config.train.steps.has_value() == config.train.epochs.has_value()) {
    report.add(
        "train.steps",
        config.train.steps
            ? "given together with epochs. Fix: remove one of them"
            : "missing, how long to train. Fix: add steps, or epochs");
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

TrainConfig TrainConfig::from_file(
    const std::string& path,
    const std::vector<std::string>& settings) {
  return from_json(
      base::read_file(path, "the configuration " + path, config::kMaxJsonBytes),
      path,
      settings);
}

TrainConfig TrainConfig::from_json(
    std::string_view text,
    const std::string& origin,
    const std::vector<std::string>& settings) {
  Report report(origin);
  config::JsonValue document = config::parse_json(text, origin, report);
  for (const std::string& setting : settings) {
    config::apply_setting(document, setting);
  }
  TrainConfig config;
  // A run that has gone wrong is not worth going on with.
  config.zero.libzero.on_nonfinite = LibzeroConfig::OnNonfinite::raise;
  Section root(report, &document, "");
  config::read_config(root, config.zero);
  read_trainer(root, config);
  config::check(config.zero, report);
  if (document.is_object() && document.find("model") != nullptr &&
      document.find("data") != nullptr && document.find("train") != nullptr) {
    check_model(config, report);
    check_data(config, report);
    check_train(config, report);
  }
  report.throw_if_any();
  config.origin_ = origin;
  for (const auto& [path, line] : report.places()) {
    config.origins_.push_back({path, line});
  }
  return config;
}

std::string TrainConfig::to_json() const {
  return dump(effective(*this), 2) + "\n";
}

std::string TrainConfig::explain() const {
  std::map<std::string, int> lines;
  for (const Origin& origin : origins_) {
    lines[origin.path] = origin.line;
  }
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
    const auto found = lines.find(path);
    std::string from = "default";
    if (found != lines.end()) {
      from = found->second == config::kSetLine
          ? "--set"
          : c10::str(origin_, ":", found->second);
    }
    std::string line = path + " = " + dump(value, -1);
    line.resize(std::max<size_t>(line.size() + 2, 60), ' ');
    text += line + from + "\n";
  };
  explain_all(explain_all, "", effective(*this));
  return text;
}

} // namespace zero::tasks

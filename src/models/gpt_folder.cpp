#include "models/gpt_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file_io.h"
#include "config/parse_json.h"
#include "models/load_weights.h"

namespace zero::models {

using config::JsonValue;

namespace {

constexpr double kInitializerRange = 0.02;

int64_t count_at(
    const JsonValue& root,
    const char* key,
    int64_t otherwise,
    config::Report& report) {
  const auto* value = root.find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (value->kind != JsonValue::Kind::integer || value->integer < 1) {
    report.place(key, value->line);
    report.expected(key, value->describe(), "a number of at least 1");
    return otherwise;
  }
  return value->integer;
}

double number_at(
    const JsonValue& root,
    const char* key,
    double otherwise,
    config::Report& report) {
  const auto* value = root.find(key);
  if (value == nullptr) {
    return otherwise;
  }
  const bool is_number = value->kind == JsonValue::Kind::integer ||
      value->kind == JsonValue::Kind::number;
  if (!is_number || !(value->number >= 0 && value->number < 1)) {
    report.place(key, value->line);
    report.expected(key, value->describe(), "a number from 0 to below 1");
    return otherwise;
  }
  return value->number;
}

// If it is there at all.
void require(
    const JsonValue& root,
    const char* key,
    const std::string& shown,
    bool is_right,
    config::Report& report) {
  if (const auto* value = root.find(key); value != nullptr && !is_right) {
    report.place(key, value->line);
    report.expected(
        key,
        value->describe(),
        shown,
        "choose a model of GPT-2's architecture");
  }
}

// Published files have the transformer alone, and masks that are computed here.
// The output layer may be there a second time: it is the embedding.
std::string name_in_gpt(const std::string& name) {
  const std::string prefix = "transformer.";
  if (name == "lm_head.weight" || name.ends_with(".attn.bias") ||
      name.ends_with(".attn.masked_bias")) {
    return {};
  }
  return name.starts_with(prefix) ? name : prefix + name;
}

// Large models are spread over several files, of which a list says what is
// where.
std::set<std::string> weight_files(const std::string& folder) {
  const std::string whole = folder + "/model.safetensors";
  const std::string list = whole + ".index.json";
  if (std::filesystem::exists(whole) || !std::filesystem::exists(list)) {
    return {whole};
  }
  config::Report report(list);
  const JsonValue root = config::parse_json(
      base::read_file(list, "'" + list + "'", config::kMaxJsonBytes),
      list,
      report);
  const auto* map = root.is_object() ? root.find("weight_map") : nullptr;
  std::set<std::string> files;
  if (map != nullptr && map->is_object()) {
    for (const auto& value : map->elements) {
      // Nothing outside of the folder is meant, whatever the list says.
      const bool is_name = value.kind == JsonValue::Kind::text &&
          !value.text.empty() && value.text.find('/') == std::string::npos;
      if (!is_name) {
        report.expected(
            "weight_map", value.describe(), "the name of a file beside it");
        break;
      }
      files.insert(folder + "/" + value.text);
    }
  } else {
    report.expected("", "another file", "an object with weight_map");
  }
  report.throw_if_any();
  return files;
}

} // namespace

std::string gpt_config_json(const GptOptions& options) {
  const nlohmann::ordered_json config{
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", options.vocabulary},
      {"n_positions", options.max_length},
      {"n_ctx", options.max_length},
      {"n_embd", options.width},
      {"n_layer", options.num_layers},
      {"n_head", options.num_heads},
      {"activation_function", "gelu_new"},
      {"embd_pdrop", options.dropout},
      {"attn_pdrop", options.dropout},
      {"resid_pdrop", options.dropout},
      {"layer_norm_epsilon", options.norm_epsilon},
      {"initializer_range", kInitializerRange},
      // Not GPT-2's, which a smaller vocabulary does not have.
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"tie_word_embeddings", true}};
  return config.dump(2) + "\n";
}

GptOptions gpt_options_from_json(
    const std::string& text,
    const std::string& origin) {
  config::Report report(origin);
  const JsonValue root = config::parse_json(text, origin, report);
  if (!root.is_object()) {
    throw ConfigError(c10::str(origin, ": expected an object"));
  }
  const auto is_text = [&](const char* key, const char* value) {
    const auto* found = root.find(key);
    return found != nullptr && found->is_text(value);
  };
  const auto is_true = [&](const char* key) {
    const auto* found = root.find(key);
    return found != nullptr && found->kind == JsonValue::Kind::boolean &&
        found->boolean;
  };
  if (root.find("model_type") == nullptr) {
    report.add(
        "model_type",
        "missing, so that it is no model of Hugging Face. Fix: name a folder "
        "with one; a run of zero train has them in best/ and model/");
  }
  require(
      root, "model_type", "\"gpt2\"", is_text("model_type", "gpt2"), report);
  require(
      root,
      "activation_function",
      "\"gelu_new\"",
      is_text("activation_function", "gelu_new"),
      report);
  require(
      root,
      "tie_word_embeddings",
      "true",
      is_true("tie_word_embeddings"),
      report);
  require(
      root,
      "scale_attn_weights",
      "true",
      is_true("scale_attn_weights"),
      report);
  for (const char* key :
       {"scale_attn_by_inverse_layer_idx",
        "reorder_and_upcast_attn",
        "add_cross_attention"}) {
    const auto* found = root.find(key);
    require(
        root,
        key,
        "false",
        found != nullptr && found->kind == JsonValue::Kind::boolean &&
            !found->boolean,
        report);
  }
  GptOptions options;
  options.vocabulary = count_at(root, "vocab_size", options.vocabulary, report);
  options.max_length =
      count_at(root, "n_positions", options.max_length, report);
  options.width = count_at(root, "n_embd", options.width, report);
  options.num_layers = count_at(root, "n_layer", options.num_layers, report);
  options.num_heads = count_at(root, "n_head", options.num_heads, report);
  const auto* inner = root.find("n_inner");
  require(
      root,
      "n_inner",
      c10::str("null or ", 4 * options.width),
      inner != nullptr &&
          (inner->kind == JsonValue::Kind::null ||
           inner->integer == 4 * options.width),
      report);
  options.norm_epsilon =
      number_at(root, "layer_norm_epsilon", options.norm_epsilon, report);
  options.dropout = number_at(root, "resid_pdrop", options.dropout, report);
  report.throw_if_any();
  return options;
}

GptOptions read_gpt_options(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return gpt_options_from_json(
      base::read_file(path, "'" + path + "'", config::kMaxJsonBytes), path);
}

bool has_weights(const std::string& folder) {
  const std::string whole = folder + "/model.safetensors";
  return std::filesystem::exists(whole) ||
      std::filesystem::exists(whole + ".index.json");
}

Gpt load_gpt(const std::string& folder, std::optional<double> dropout) {
  GptOptions options = read_gpt_options(folder);
  options.dropout = dropout.value_or(options.dropout);
  Gpt gpt(options);
  std::vector<checkpoint::SafetensorsReader> files;
  for (const std::string& path : weight_files(folder)) {
    files.emplace_back(path);
  }
  load_weights(*gpt, files, folder, {.rename = name_in_gpt});
  return gpt;
}

} // namespace zero::models

#include "tasks/generator.h"

#include <zero/engine.h>

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "data/tokenizer_folder.h"
#include "models/gpt_folder.h"
#include "tasks/together.h"

namespace zero::tasks {

namespace {

bool is_model(const std::string& folder) {
  return std::filesystem::exists(folder + "/model.safetensors");
}

// How many bytes of the text are whole characters: a token may end within one.
size_t whole_characters(std::string_view text) {
  size_t whole = 0;
  while (whole < text.size()) {
    const auto rest = text.substr(whole);
    constexpr size_t kLongest = 4;
    if (data::begins_outside_utf8(rest) && rest.size() < kLongest) {
      break; // its other bytes may come
    }
    whole += data::first_character(rest).size();
  }
  return whole;
}

Config for_reading_only() {
  Config config;
  config.zero_optimization.stage = 3;
  config.optimizer.type = OptimizerConfig::Type::sgd; // without state
  return config;
}

} // namespace

std::string model_folder(const std::string& folder) {
  for (const char* name : {"/best", "/model", ""}) {
    if (is_model(folder + name)) {
      return folder + name;
    }
  }
  throw ConfigError(c10::str(
      "'",
      folder,
      "' has no model: no model.safetensors is in it, nor in its best/ and "
      "model/. Fix: name the folder of a run of zero train that has ended, or "
      "a model folder of Hugging Face"));
}

void generate_text(
    const World& world,
    const std::string& folder,
    const std::string& prompt,
    const models::GenerateOptions& options,
    const std::function<void(std::string_view)>& write) {
  std::unique_ptr<data::Tokenizer> tokenizer;
  models::Gpt gpt{nullptr};
  std::vector<int64_t> tokens;
  together(world, [&] {
    const std::string model = model_folder(folder);
    models::check(options);
    tokenizer = data::read_tokenizer(model);
    gpt = models::load_gpt(model);
    tokens = tokenizer->encode(prompt);
    if (tokens.empty()) {
      throw ConfigError(
          "the prompt is empty. Fix: give a text to go on with, --prompt");
    }
  });
  gpt->eval();
  for (at::Tensor& parameter : gpt->parameters()) {
    parameter.requires_grad_(false);
  }
  std::optional<Engine> engine;
  if (world.size() > 1) {
    engine.emplace(world, gpt.ptr(), for_reading_only());
  }
  models::GenerateOptions known = options;
  known.num_known = tokenizer->vocabulary();
  const auto end = tokenizer->end_of_text();
  std::string pending;
  models::generate(gpt, tokens, known, [&](int64_t token) {
    if (end && token == *end) {
      return false;
    }
    pending += tokenizer->decode({token});
    const size_t whole = whole_characters(pending);
    if (world.rank() == 0) {
      write(std::string_view(pending).substr(0, whole));
    }
    pending.erase(0, whole);
    return true;
  });
  if (world.rank() == 0) {
    write(pending);
  }
}

} // namespace zero::tasks

#include "tasks/generator.h"

#include <zero/engine.h>

#include <optional>

#include "base/error.h"
#include "data/tokenizer_folder.h"
#include "models/gpt_folder.h"
#include "tasks/together.h"

namespace zero::tasks {

namespace {

Config for_reading_only() {
  Config config;
  config.zero_optimization.stage = 3;
  config.optimizer.type = OptimizerConfig::Type::sgd; // without state
  return config;
}

} // namespace

std::string model_folder(const std::string& folder) {
  for (const char* name : {"/best", "/model", ""}) {
    if (models::has_weights(folder + name)) {
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
  const auto write_on_one = [&](std::string_view text) {
    if (world.rank() == 0) {
      write(text);
    }
  };
  write_on_one(prompt);
  std::string pending;
  models::generate(gpt, tokens, known, [&](int64_t token) {
    if (end && token == *end) {
      return false;
    }
    pending += tokenizer->decode({token});
    const size_t whole = data::without_cut_character(pending).size();
    write_on_one(std::string_view(pending).substr(0, whole));
    pending.erase(0, whole);
    return true;
  });
  write_on_one(pending + "\n");
}

} // namespace zero::tasks

// Defines the model folder of Hugging Face for Gpt: config.json beside
// model.safetensors, as `transformers` writes and reads it.
#pragma once

#include <optional>
#include <string>

#include "models/gpt.h"

namespace zero::models {

// The text of config.json.
std::string gpt_config_json(const GptOptions& options);

// Throws: ConfigError if it is not the configuration of a GPT-2 that Gpt can
// be, with all that is wrong. `origin` is how the message calls it.
GptOptions gpt_options_from_json(
    const std::string& text,
    const std::string& origin);

// Those of the model in a folder. Throws: IoError, ConfigError.
GptOptions read_gpt_options(const std::string& folder);

// Of a published model or of one that was trained here, with the dropout that
// config.json has unless another is given. Throws: IoError, CorruptionError,
// ConfigError.
// Whether the folder has weights, in one file or several.
bool has_weights(const std::string& folder);

Gpt load_gpt(
    const std::string& folder,
    std::optional<double> dropout = std::nullopt);

} // namespace zero::models

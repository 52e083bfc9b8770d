// Defines generate_text(): goes on with a text, with the model of a run or any
// GPT-2 in a folder.
#pragma once

#include <zero/world.h>

#include <functional>
#include <string>
#include <string_view>

#include "models/generate.h"

namespace zero::tasks {

// The model of a run's folder (the best one, if there is), or the folder itself
// if it is a model's. Throws: ConfigError if it is neither.
std::string model_folder(const std::string& folder);

// Collective: with several ranks the parameters are partitioned among them. On
// rank 0, `write` gets the new text as it comes, in whole characters. Throws:
// ConfigError, IoError, CorruptionError.
void generate_text(
    const World& world,
    const std::string& folder,
    const std::string& prompt,
    const models::GenerateOptions& options,
    const std::function<void(std::string_view)>& write);

} // namespace zero::tasks

// Defines export_folder(): a checkpoint becomes a model folder of Hugging Face,
// without the engine that saved it. Engine::export_safetensors() does it for a
// module that is in training.
//
//   CheckpointReader reader("runs/gpt-1/checkpoints/save-000007-step-120");
//   export_folder(reader, "exported");
//
// A model of any size goes through the same few megabytes of memory.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint_reader.h"

namespace zero::checkpoint {

struct ExportOptions {
  // Of the tensors in a file. What is more becomes several files and a list of
  // what is where; a tensor is never divided.
  int64_t max_file_bytes = 5'000'000'000;
  // All but the weights in it is copied along, unless it is empty.
  std::string model_folder = {};
};

// Returns the names of the files with tensors. The folder is there when all of
// it is. Throws: ConfigError if it is there already and not empty; IoError,
// CorruptionError.
std::vector<std::string> export_folder(
    CheckpointReader& reader,
    const std::string& folder,
    const ExportOptions& options = {});

// Where `zero train` has left config.json and the tokenizer of the model that a
// checkpoint is of; empty if it has not.
std::string model_folder_of(const std::string& checkpoint);

} // namespace zero::checkpoint

// Defines load_weights(): fills a module from a safetensors file, or says all
// that does not fit.
//
//   SafetensorsReader file("resnet18.safetensors");
//   auto left = load_weights(*net, file, {.may_stay = "fc."});
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors_reader.h"

namespace zero::models {

struct LoadOptions {
  // What the module calls a tensor of the file; empty to pass it over. Without
  // it, names are the same.
  std::function<std::string(const std::string&)> rename = {};

  // Tensors of the module whose names begin so may have another first size, or
  // be missing, all of them, and then stay as they are: the last layer, for
  // other classes. Empty: none.
  std::string may_stay = {};

  // Tensors whose names end so may be missing: what counts batches, which older
  // files do not have.
  std::string may_be_missing = {};
};

// Returns the tensors that stayed as they are by `may_stay`, each with its
// sizes in the file. Values are converted to the types that the module has.
// Throws: ConfigError that names every tensor that is missing, unexpected or of
// other sizes; the module is then as before.
std::vector<std::string> load_weights(
    torch::nn::Module& module,
    const checkpoint::SafetensorsReader& file,
    const LoadOptions& options = {});

// From what is spread over several files, which messages call `origin`.
std::vector<std::string> load_weights(
    torch::nn::Module& module,
    std::span<const checkpoint::SafetensorsReader> files,
    const std::string& origin,
    const LoadOptions& options = {});

} // namespace zero::models

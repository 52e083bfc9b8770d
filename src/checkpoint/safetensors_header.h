// Defines what a safetensors file begins with.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/safetensors_types.h"

namespace zero::checkpoint {

// Length and JSON, with spaces up to a multiple of `alignment`, which is one of
// 8. Tensors lie one after another in the order given. Throws: ConfigError for
// a type the format does not have.
std::string safetensors_header(
    const std::vector<TensorEntry>& tensors,
    const Metadata& metadata = {},
    size_t alignment = 8);

// Of what comes behind it.
size_t data_bytes(const std::vector<TensorEntry>& tensors);

} // namespace zero::checkpoint

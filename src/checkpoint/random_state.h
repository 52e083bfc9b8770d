// Defines what a checkpoint says besides tensors of the module.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "engine/engine_state.h"

namespace zero::checkpoint {

// Of torch's generator for the CPU, as a tensor of bytes.
at::Tensor random_state();
// False if it is not one of this version of libtorch.
bool set_random_state(const at::Tensor& state);

// Whose state it is: what another one has left is of no use to it.
std::string optimizer_name(const engine::EngineState& state);

} // namespace zero::checkpoint

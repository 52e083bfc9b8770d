// Defines how the engine takes stock of a module: its parameters, each once
// with all its names, and its buffers.
#pragma once

#include <torch/nn/module.h>
#include <zero/config.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/shm/group.h"
#include "shard/partition.h"

namespace zero::engine {

// In the order of registration.
// Throws: ConfigError naming every parameter that cannot be partitioned.
std::vector<shard::Parameter> parameters_of(
    const torch::nn::Module& module,
    const std::string& prefix);

// Buffers that hold data on the CPU and can be written to, each once.
std::vector<shard::Parameter> buffers_of(const torch::nn::Module& module);

// Collective. Throws: ConfigError on every rank, naming the first difference,
// unless all ranks have the same configuration, names, shapes and types.
void check_same_on_all_ranks(
    comm::Group& group,
    const Config& config,
    const std::vector<shard::Parameter>& parameters,
    const std::vector<shard::Parameter>& buffers);

} // namespace zero::engine

// Defines Handover: what those who train tell one that comes to them, beside
// what lies in shared memory: where they are, which parameters are in which
// partition, how often each was updated, which rates were set. Used by
// Succession when a newcomer is let in.
#pragma once

#include <torch/nn/module.h>
#include <zero/config.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/shm/group.h"
#include "shard/partition.h"

namespace zero::engine {

struct Handover {
  struct Parameter {
    std::string name;
    std::string shape; // and its type
    bool requires_grad = true;
    int64_t num_updates = 0;
  };
  struct Partition {
    bool trainable = true;
    std::vector<Parameter> parameters;
  };

  int64_t generation = 0; // see Succession
  int64_t num_engines = 0; // that they have
  uint64_t round = 0;
  int64_t global_step = 0;
  int64_t accumulation_steps = 1;
  int64_t num_states = 0; // of the optimizer
  std::vector<Partition> partitions;
  std::vector<Parameter> buffers;
  std::vector<std::optional<double>> rates; // that were set, by group
  std::string config;
};

std::string to_text(const Handover& handover);
Handover handover_from(const std::string& text);

Handover::Parameter told_of(const shard::Parameter& parameter);

// The module's parameters in the partitions they belong to, ready to be taken
// over. Throws: ConfigError naming the first difference unless module and
// configuration are those of the others.
std::vector<std::vector<shard::Parameter>> match(
    const torch::nn::Module& module,
    const Config& config,
    int num_states,
    const Handover& handover,
    const std::string& prefix);

// Collective: what rank 0 has.
std::string text_of_rank_0(comm::Group& group, const std::string& text);

} // namespace zero::engine

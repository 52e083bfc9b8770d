// Defines checkpoints that tests look at: made by an engine, with the values
// that it had.
#pragma once

#include <gtest/gtest.h>
#include <zero/zero.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "checkpoint/training.h"

namespace zero::test {

// What an engine had when it saved, by the first name of each tensor.
using Values = std::map<std::string, at::Tensor>;

inline Values named_values(Engine& engine, torch::nn::Module& module) {
  const auto guard = engine.gather(module);
  Values values;
  // Names of tied parameters come once only.
  for (const auto& item : module.named_parameters()) {
    const bool is_tied = std::ranges::any_of(values, [&](const auto& known) {
      return known.second.is_same(item.value());
    });
    if (!is_tied) {
      values[item.key()] = item.value();
    }
  }
  for (const auto& item : module.named_buffers()) {
    values[item.key()] = item.value();
  }
  for (auto& [name, value] : values) {
    value = value.detach().clone(at::MemoryFormat::Contiguous);
  }
  return values;
}

// Trains for so many steps, saving after each. Returns the values at the end.
inline Values make_checkpoints_of(
    const std::string& model_name,
    const std::filesystem::path& folder,
    int num_ranks,
    int num_steps = 1,
    const Setting& setting = {3, true}) {
  Values values;
  run_threads(num_ranks, [&](World world) {
    const Model model = make_model(model_name);
    Engine engine(world, model.module, training_config(setting, num_ranks));
    for (int step = 0; step < num_steps; ++step) {
      train_step(world, model, engine);
      SaveOptions options;
      options.keep = 0;
      options.notes = {{"task", "test"}};
      options.sampler = SamplerState{100, 7, true, 12 * (step + 1)};
      engine.save(folder, options);
    }
    auto own = named_values(engine, *model.module);
    if (world.rank() == 0) {
      values = std::move(own);
    }
    world.barrier(); // others may still read what this one has
  });
  return values;
}

inline void flip_bit_at(const std::filesystem::path& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 4);
  file.seekp(offset);
  file.put(byte);
}

} // namespace zero::test

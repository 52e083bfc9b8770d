// Defines a training in which ranks are killed, and what those who are left
// must have when it is over: the parameters that plain libtorch gets from the
// same batches.
//
//   train_through_losses(world, "moe", config, at("engine.moment", 7));
#pragma once

#include <gtest/gtest.h>
#include <zero/zero.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/failpoint.h"
#include "engine/changing_ranks.h"
#include "engine/models.h"
#include "engine/oracle.h"
#include "engine/settings.h"

namespace zero::test {

inline constexpr int kStepsOfRun = 4;
// Who took part in each step, by what an engine tells of its recoveries. Ranks
// are the numbers at the start.
inline std::vector<std::vector<int>> who_took_part(
    int num_ranks,
    const std::vector<Recovery>& recoveries) {
  std::vector<int> present(static_cast<size_t>(num_ranks));
  std::iota(present.begin(), present.end(), 0);
  std::vector<std::vector<int>> by_step(
      static_cast<size_t>(kStepsOfRun), present);
  for (const auto& recovery : recoveries) {
    std::vector<int> left;
    for (size_t rank = 0; rank < present.size(); ++rank) {
      const auto& lost = recovery.ranks;
      if (std::ranges::find(lost, static_cast<int>(rank)) == lost.end()) {
        left.push_back(present[rank]);
      }
    }
    present = left;
    const int64_t first = recovery.loaded
        ? recovery.loaded->step
        : recovery.step + (recovery.is_round_abandoned ? 0 : 1);
    for (int64_t step = first; step < kStepsOfRun; ++step) {
      by_step[static_cast<size_t>(step)] = left;
    }
  }
  return by_step;
}

// How a run is disturbed, and what it saves.
struct Disturbance {
  std::string failpoints;
  std::string folder; // where it saves in its first steps, until a loss
  int64_t saves_until = 0;
};

inline void train_to_the_end(
    Engine& engine,
    const Model& model,
    int number,
    const Disturbance& disturbance) {
  if (disturbance.saves_until > 0 && engine.recoveries().empty()) {
    engine.save(disturbance.folder);
  }
  while (engine.global_step() < kStepsOfRun) {
    const auto step = static_cast<int>(engine.global_step());
    StepResult result;
    for (int micro = 0; !result.updated && !result.abandoned; ++micro) {
      engine.backward(model.loss(batch_seed(step, micro, number)));
      result = engine.step();
    }
    if (result.steps_lost == 0) {
      EXPECT_EQ(engine.global_step(), step + (result.updated ? 1 : 0));
    }
    EXPECT_EQ(result.step, engine.global_step());
    if (result.step <= disturbance.saves_until && engine.recoveries().empty()) {
      engine.save(disturbance.folder);
    }
  }
}

// What each rank does until all steps are done.
inline void train_through_losses(
    World world,
    const std::string& model_name,
    const Config& config,
    const Disturbance& disturbance) {
  const int number = world.rank();
  const int num_ranks = world.size();
  base::set_failpoints(disturbance.failpoints);
  torch::manual_seed(7);
  const Model model = make_model(model_name);
  Engine engine(world, model.module, config);
  const auto& recoveries = engine.recoveries();
  for (bool is_done = false; !is_done;) {
    const size_t before = recoveries.size();
    try {
      if (before == 0) {
        world.barrier(); // a loss while an engine is made is the end of it
      }
      train_to_the_end(engine, model, number, disturbance);
      const auto guard = engine.gather(*model.module);
      expect_plain_training_of(
          model_name,
          config,
          who_took_part(num_ranks, recoveries),
          *model.module);
      EXPECT_EQ(
          world.size(),
          recoveries.empty() ? num_ranks : recoveries.back().num_left);
      world.barrier(); // others may still read what this one has
      is_done = true;
    } catch (const std::exception&) { // what another host had did not come
      engine.recover();
      if (recoveries.size() == before) {
        throw;
      }
    }
  }
}

struct Kill {
  int rank = 0;
  std::string failpoints;
};

inline Config recovery_config(const Setting& setting) {
  Config config = adam_config(setting);
  config.libzero.consistency_check_every = 1;
  return config;
}

// Adam makes much of gradients that are nothing but rounding.
inline Config sgd_recovery_config(const Setting& setting) {
  Config config = plain_config(setting);
  config.optimizer.lr = 0.05;
  config.optimizer.momentum = 0.9;
  config.libzero.consistency_check_every = 1;
  return config;
}

inline std::string at(const std::string& point, int number) {
  return c10::str(point, ":kill@", number);
}

} // namespace zero::test

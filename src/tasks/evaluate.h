// Defines evaluate(): how good the model is on data it does not learn from,
// each rank measuring its share.
//
//   Evaluated now = evaluate(world, task, 64, stop);
//   task.results(now.sums);
#pragma once

#include <zero/world.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "tasks/stop_request.h"
#include "tasks/task.h"

namespace zero::tasks {

struct Evaluated {
  Sums sums{}; // of all ranks
  std::string text; // that the model writes
  bool stopped = false; // on any rank: the sums are of a part

  bool is_finite() const {
    return std::isfinite(sums[1]); // the loss
  }
};

// Collective; takes so many samples at a time. What fails on one rank fails on
// all, as together() has it.
Evaluated evaluate(
    const World& world,
    Task& task,
    int64_t num_samples,
    const StopRequest& stop);

// Accuracy where there is one, else the loss. No number is better than none.
bool is_better(const Results& one, const Results& other);

} // namespace zero::tasks

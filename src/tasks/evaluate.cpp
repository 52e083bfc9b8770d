#include "tasks/evaluate.h"

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <zero/sampler.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/activity.h"
#include "tasks/together.h"

namespace zero::tasks {

using base::Activity;
using base::Span;

namespace {

// This rank's share, and whether it was stopped before its end.
std::vector<double> measure(
    const World& world,
    Task& task,
    int64_t num_samples,
    const StopRequest& stop) {
  const auto share = share_of(task.num_evaluation_samples(), world);
  std::vector<double> sums(kNumSums + 1);
  for (int64_t i = share.first; i < share.second && !stop.is_made();
       i += num_samples) {
    const auto part = task.measure(
        task.evaluation_batch(i, std::min(share.second, i + num_samples)));
    for (size_t k = 0; k < kNumSums; ++k) {
      sums[k] += part[k];
    }
  }
  sums[kNumSums] = stop.is_made() ? 1 : 0;
  return sums;
}

} // namespace

Evaluated evaluate(
    const World& world,
    Task& task,
    int64_t num_samples,
    const StopRequest& stop) {
  const Span span(Activity::evaluate);
  const c10::NoGradGuard no_grad;
  Evaluated result;
  std::vector<double> own;
  task.module()->eval();
  together(world, [&] { own = measure(world, task, num_samples, stop); });
  for (const auto& row : exchange_rows(world, own)) {
    for (size_t k = 0; k < kNumSums; ++k) {
      result.sums[k] += row[k];
    }
    result.stopped = result.stopped || row[kNumSums] != 0;
  }
  // All ranks write, since nobody has anything better to do; a model that has
  // diverged has nothing to say.
  if (!result.stopped && result.is_finite()) {
    together(world, [&] {
      result.text = task.sample([&] { return !stop.is_made(); });
    });
  }
  task.module()->train();
  return result;
}

bool is_better(const Results& one, const Results& other) {
  const auto value = [](const Results& results, const char* name) {
    for (const auto& [known, number] : results) {
      if (known == name) {
        return number;
      }
    }
    return std::nan("");
  };
  const double accuracy = value(one, "accuracy");
  const double loss = value(one, "loss");
  if (!std::isfinite(loss)) {
    return false;
  }
  return other.empty() ||
      (std::isnan(accuracy) ? loss < value(other, "loss")
                            : accuracy > value(other, "accuracy"));
}

} // namespace zero::tasks

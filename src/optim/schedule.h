// Defines Schedule: the learning rate, and for OneCycle the momentum, of every
// update. The engine asks it once per update and group of parameters. It keeps
// no state, so any thread may ask, and a resumed run asks for where it goes on.
//
//   const auto schedule = Schedule::make(config.scheduler, config.optimizer);
//   const auto [lr, momentum] = schedule->at(num_updates_so_far, group_lr);
//
// Note [When DeepSpeed's schedules begin]
// DeepSpeed updates first and moves its schedule afterwards, which then counts
// from 0. The first update has what the schedule's constructor has set, and the
// n-th one what the schedule says of n - 2. So a warm-up spends two updates at
// its lowest rate, and OneCycle begins with the lowest momentum, to continue
// near the highest one. at() is exact about that: the numbers are DeepSpeed's.
#pragma once

#include <zero/config.h>

#include <cstdint>
#include <memory>

namespace zero::optim {

class Schedule {
 public:
  struct Values {
    double lr = 0;
    double momentum = -1; // as in Slice: negative where it is not scheduled
  };

  // A schedule that never changes anything if the type is none.
  // Requires: Config::validate() has nothing against the configurations.
  static std::unique_ptr<Schedule> make(
      const SchedulerConfig& config,
      const OptimizerConfig& optimizer);

  virtual ~Schedule() = default;

  // For the update before which there were `step` others. `base_lr` is the
  // learning rate that the group of parameters is configured with.
  virtual Values at(int64_t step, double base_lr) const = 0;
};

// What the optimizer is to be made with. A OneCycle that schedules momentum
// sets the second beta as well, to 0.99 for the whole run: DeepSpeed does so.
OptimizerConfig with_schedule(
    const OptimizerConfig& optimizer,
    const SchedulerConfig& config);

} // namespace zero::optim

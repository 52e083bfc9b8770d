// Defines train(): a run of `zero train`, on every rank of its world.
#pragma once

#include <zero/world.h>

#include "tasks/run_record.h"
#include "tasks/train_config.h"

namespace zero::tasks {

// Collective. Stops between two steps, with all that it has written down, when
// a rank gets SIGINT or SIGTERM. Returns whether it went on to the end. Throws:
// ConfigError, IoError, CorruptionError, FailedElsewhere; Error when a loss or
// a gradient is not finite.
bool train(
    const World& world,
    const TrainConfig& config,
    const TrainOptions& options);

} // namespace zero::tasks

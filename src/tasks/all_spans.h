// Defines spans_of_all_ranks(): what every rank did when, for the trace.
#pragma once

#include <zero/world.h>

#include <vector>

#include "base/activity.h"

namespace zero::tasks {

// Collective: the spans that each rank has kept.
std::vector<std::vector<base::KeptSpan>> spans_of_all_ranks(const World& world);

} // namespace zero::tasks

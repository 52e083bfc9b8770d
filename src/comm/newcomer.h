// Defines how a process that was started in place of a lost rank comes to those
// who train. Used by join_world(); join_the_others() is in world_state.h.
#pragma once

#include "comm/world_state.h"

namespace zero::comm {

// Gives a newcomer its provisional group: itself, behind all that are there.
// Throws: ConfigError unless it verifies as they do.
void begin_to_join(WorldState& world);

} // namespace zero::comm

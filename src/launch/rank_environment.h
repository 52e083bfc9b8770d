// Defines the environment variables a rank is started with.
//
//   ZERO_RANK, ZERO_SIZE   its number and how many there are
//   ZERO_ROSTER            "PID:DESCRIPTOR", where the roster is open
//   ZERO_NEWCOMER          the roster's id of one that takes a lost rank's
//   place OMP_NUM_THREADS        its share of the cores, unless the user set it
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/shared_mapping.h"

namespace zero::launch {

// This process's environment with those of the rank, as "NAME=value".
std::vector<std::string> rank_environment(
    int rank,
    int num_ranks,
    base::SegmentAddress roster,
    std::optional<int> newcomer = std::nullopt);

} // namespace zero::launch

// Defines how results of evaluations are kept in a checkpoint's notes.
#pragma once

#include <string>

#include "tasks/task.h"

namespace zero::tasks {

struct KeptResults {
  Results last;
  Results best;
  int64_t best_step = 0;
};

std::string to_text(const KeptResults& results);
// Throws: CorruptionError.
KeptResults results_from_text(const std::string& text);

} // namespace zero::tasks

// Defines the Chrome trace of a run: what every rank did when, in the form that
// Perfetto and chrome://tracing open.
#pragma once

#include <string>
#include <vector>

#include "base/activity.h"

namespace zero::report {

// A process for each rank, a row for each of its threads. Throws: IoError.
void write_trace(
    const std::vector<std::vector<base::KeptSpan>>& ranks,
    const std::string& path);

} // namespace zero::report

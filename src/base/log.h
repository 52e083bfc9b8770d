// Defines the log: whole lines on standard error, each naming its rank.
//
//   log_warning(rank, size, c10::str("rank ", late, " is late"));
//
// Thread-safe; a line is one write(), so lines of several ranks do not mix.
#pragma once

#include <string>

namespace zero::base {

// "[rank 2/8] "; how every message of a rank begins.
std::string rank_prefix(int rank, int size);

void log_info(int rank, int size, const std::string& message);
void log_warning(int rank, int size, const std::string& message);

} // namespace zero::base

// Defines how ranks that nobody gave a roster find each other: under torchrun,
// rank 0 makes one and hands it to the others.
#pragma once

#include <string>

#include "comm/roster.h"

namespace zero::comm {

// `meeting` is a name that only the ranks of one run share. They meet on a Unix
// socket in the abstract namespace, which leaves no file behind; each side
// makes sure that the other runs as the same user.
// Blocks until every rank is there.
// Throws, on all: CommTimeout naming a rank that does not come, PeerLost one
// that has come and gone, ConfigError if they disagree on their number;
// IoError.
Roster meet(
    const std::string& meeting,
    int rank,
    int size,
    double timeout_seconds);

} // namespace zero::comm

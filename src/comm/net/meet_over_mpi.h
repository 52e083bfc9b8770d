// Defines how ranks find each other that mpirun or srun started, on one host or
// on several, or torchrun on several.
#pragma once

#include <memory>

#include "base/shared_mapping.h"
#include "comm/environment.h"
#include "comm/net/outside.h"
#include "comm/roster.h"

namespace zero::comm {

struct Meeting {
  Roster roster; // of this host
  int rank = 0;
  // Of several hosts; null on one.
  std::shared_ptr<Outside> outside;
  std::shared_ptr<base::SharedMapping> segment; // of the group of all
};

// Collective. The environment says which MPI it is. Ends the process, with a
// message, if ranks have not come within so many seconds.
// Throws: ConfigError if hosts have different versions of libzero, or there is
// no module for the MPI; CommError, and CommTimeout naming ranks that have not
// come to torchrun's store; IoError.
Meeting meet_over_mpi(const Environment& environment, double limit_seconds);

} // namespace zero::comm

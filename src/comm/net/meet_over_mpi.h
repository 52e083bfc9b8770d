// Defines how ranks that mpirun or srun started find each other, on one host or
// on several.
#pragma once

#include <memory>
#include <string>

#include "base/shared_mapping.h"
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

// Collective. `name` is that of the MPI, as for MpiLink.
// Throws: ConfigError if hosts have different versions of libzero; CommError;
// IoError.
Meeting meet_over_mpi(const std::string& name);

} // namespace zero::comm

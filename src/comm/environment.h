// Defines Environment: how this process was started, read from the variables
// that launchers set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <zero/world.h>
#include "base/shared_mapping.h"

#include "comm/membership.h"

namespace zero::comm {

// How the ranks find each other.
enum class Launcher {
  none, // a world of 1
  zero_run, // the launcher holds the roster
  torchrun, // rank 0 makes the roster and hands it out
  torchrun_hosts, // on several machines: its agent's store knows the others
  mpi, // mpirun or srun: MPI knows the others
};

struct Environment {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int size = 1;
  // zero_run: the id in the roster of one that was started in place of a lost
  // rank, whose number it has.
  std::optional<int> newcomer;
  base::SegmentAddress roster; // zero_run
  std::string meeting; // torchrun: what only the ranks of one run share
  std::string store_host; // torchrun_hosts
  uint16_t store_port = 0; // torchrun_hosts
  // "openmpi" or "mpich": the one that started this, or that is to be started.
  std::string mpi;
};

// Looks a variable up; std::getenv for all but tests.
using Lookup = std::function<const char*(const char*)>;

// Throws: ConfigError naming the variable that is missing or wrong, or the
// launcher that this build cannot serve.
Environment read_environment(const Lookup& lookup);

// ZERO_TIMEOUT_SECONDS and its kin; a given value wins over its variable.
CommSettings read_settings(const InitOptions& options, const Lookup& lookup);

} // namespace zero::comm

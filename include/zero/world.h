// Defines World, the ranks of this job, and init(), which joins it.
//
//   zero::World world = zero::init();
//   if (world.rank() == 0) ...
//   world.communicator().all_reduce(tensor).wait();
#pragma once

#include <zero/communicator.h>

#include <memory>
#include <optional>

namespace zero {

class World;

namespace comm {
struct WorldState;
const std::shared_ptr<WorldState>& state_of(const World& world);
} // namespace comm

// What is not set here comes from the environment, else from the default.
struct InitOptions {
  // A rank whose heartbeat is silent for so long is lost: it is killed, and the
  // others go on when its process is gone. Shorter finds stopped ranks sooner;
  // longer forgives a machine that stalls. ZERO_TIMEOUT_SECONDS, 10.
  std::optional<double> timeout_seconds = {};

  // A rank that is alive but does not reach an operation for so long fails it
  // with CommTimeout. ZERO_PROGRESS_TIMEOUT_SECONDS, 1800.
  std::optional<double> progress_timeout_seconds = {};

  // Compare what the ranks call before any data is used, so that ranks that
  // call different things get an error. The same on every rank. ZERO_VERIFY,
  // on.
  std::optional<bool> verify = {};
};

// A cheap handle; copies speak of the same world.
class World {
 public:
  int rank() const;
  int size() const;
  int local_rank() const; // among the ranks of this machine
  int local_size() const;
  int node() const; // this machine among the machines
  int num_nodes() const;

  // Whether this process was started in place of a lost rank and the others
  // have not let it in: its first Engine waits for that. Until then rank() and
  // size() are what they will probably be, and there is nobody to communicate
  // with.
  bool is_joining() const;

  Communicator communicator() const;
  void barrier() const;

  // After PeerLost: every survivor calls it. Ranks are numbered anew without
  // gaps, for all copies of this handle. See Communicator::shrink.
  void shrink();

  explicit World(std::shared_ptr<comm::WorldState> state);

 private:
  friend const std::shared_ptr<comm::WorldState>& comm::state_of(const World&);
  std::shared_ptr<comm::WorldState> state_;
};

// Joins the world this process was started in: by `zero run`, by
// `torchrun --no-python`, mpirun or srun on one machine or several, or by
// nothing, as a world of 1.
// Blocks until all its ranks have come; in a process that `zero run --on-loss
// replace` has started later it returns at once, see World::is_joining(). While
// a handle lives, further calls return the same world. When the last one is
// gone this rank has left for good. Throws: ConfigError if the environment is
// wrong, PeerLost or CommTimeout if a rank does not come, IoError if the system
// gives no shared memory.
World init(const InitOptions& options = {});

} // namespace zero

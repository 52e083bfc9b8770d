#include <zero/world.h>

#include <cstdlib>

#include "base/error.h"
#include "base/libtorch_version.h"
#include "base/process_owned.h"
#include "comm/environment.h"
#include "comm/rendezvous.h"
#include "comm/world_state.h"

namespace zero {

namespace comm {

std::shared_ptr<WorldState> join_world(
    Roster roster,
    int id,
    const CommSettings& settings) {
  auto state = std::make_shared<WorldState>();
  state->membership =
      base::make_process_owned<Membership>(std::move(roster), id, settings);
  state->group = Group::form(state->membership);
  return state;
}

const std::shared_ptr<WorldState>& state_of(const World& world) {
  return world.state_;
}

} // namespace comm

namespace {

comm::Roster find_roster(
    const comm::Environment& environment,
    const comm::CommSettings& settings) {
  switch (environment.launcher) {
    case comm::Launcher::zero_run:
      return comm::Roster::attach(
          base::SharedMapping::open(environment.roster));
    case comm::Launcher::torchrun:
      return comm::meet(
          environment.meeting,
          environment.rank,
          environment.size,
          settings.progress_timeout_seconds);
    case comm::Launcher::none:
      break;
  }
  return comm::Roster::create(1);
}

} // namespace

World init(const InitOptions& options) {
  // A process has one place in the world that started it, for as long as a
  // World or a Communicator of it lives.
  static std::mutex mutex;
  static std::weak_ptr<comm::WorldState> joined;
  static std::weak_ptr<comm::Group> group;
  const std::lock_guard lock(mutex);
  if (auto state = joined.lock()) {
    return World(std::move(state));
  }
  if (auto alive = group.lock()) {
    auto state = std::make_shared<comm::WorldState>();
    state->membership = alive->membership();
    state->group = std::move(alive);
    joined = state;
    return World(std::move(state));
  }
  base::require_libtorch();
  const comm::Lookup lookup = [](const char* name) {
    return std::getenv(name);
  };
  const auto environment = comm::read_environment(lookup);
  const auto settings = comm::read_settings(options, lookup);
  auto roster = find_roster(environment, settings);
  if (roster.size() != environment.size) {
    throw ConfigError(c10::str(
        "this rank was told that there are ",
        environment.size,
        " ranks, but the world has ",
        roster.size(),
        ". Fix: leave ZERO_SIZE or WORLD_SIZE as the launcher set it"));
  }
  auto state = comm::join_world(std::move(roster), environment.rank, settings);
  joined = state;
  group = state->group;
  return World(std::move(state));
}

World::World(std::shared_ptr<comm::WorldState> state)
    : state_(std::move(state)) {}

int World::rank() const {
  return state_->current()->rank();
}

int World::size() const {
  return state_->current()->size();
}

// All ranks are on one machine.
int World::local_rank() const {
  return rank();
}

int World::local_size() const {
  return size();
}

int World::node() const {
  return 0;
}

int World::num_nodes() const {
  return 1;
}

Communicator World::communicator() const {
  return Communicator(state_->current());
}

void World::barrier() const {
  communicator().barrier();
}

void World::shrink() {
  auto group = state_->current()->shrink();
  const std::lock_guard lock(state_->mutex);
  state_->group = std::move(group);
}

} // namespace zero

#include <zero/world.h>

#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/libtorch_version.h"
#include "base/process_owned.h"
#include "comm/environment.h"
#include "comm/net/meet_over_mpi.h"
#include "comm/newcomer.h"
#include "comm/rendezvous.h"
#include "comm/world_state.h"

namespace zero {

namespace comm {

std::shared_ptr<WorldState> join_world(
    Roster roster,
    int id,
    const CommSettings& settings,
    std::shared_ptr<const Outside> outside,
    std::shared_ptr<base::SharedMapping> segment) {
  auto state = std::make_shared<WorldState>();
  state->membership = base::make_process_owned<Membership>(
      std::move(roster), id, settings, std::move(outside));
  if (id >= state->membership->roster().size()) {
    begin_to_join(*state);
    return state;
  }
  state->group = segment == nullptr
      ? Group::form(state->membership)
      : Group::form_over_hosts(state->membership, std::move(segment));
  return state;
}

void WorldState::shrink(bool lets_in_now) {
  auto successor = current()->shrink(lets_in_now);
  const std::lock_guard lock(mutex);
  group = std::move(successor);
}

void WorldState::add(Dependent* dependent) {
  const std::lock_guard lock(mutex);
  dependents.push_back(dependent);
}

void WorldState::remove(Dependent* dependent) {
  const std::lock_guard lock(mutex);
  std::erase(dependents, dependent);
}

namespace {

void go_on(WorldState& world, bool lets_in) {
  world.lets_in = false;
  // Each attempt but the last one has lost one more, of those who were let in
  // with the first one, too.
  for (int attempts = kMaxRanks; attempts > 0; --attempts) {
    try {
      if (std::exchange(lets_in, false)) {
        world.shrink(/*lets_in_now=*/true);
      } else if (!world.current()->lost_ranks().empty()) {
        world.shrink();
      }
      const auto survivors = world.current();
      for (auto* dependent : std::vector(world.dependents)) {
        dependent->go_on_with(survivors);
      }
      break;
    } catch (const CommError&) {
      if (attempts == 1 || world.current()->lost_ranks().empty()) {
        throw;
      }
    }
  }
  world.membership->roster().forgive_victim(world.membership->id());
}

} // namespace

void go_on_without_the_lost(WorldState& world) {
  go_on(world, /*lets_in=*/false);
}

void let_in_newcomers(WorldState& world) {
  go_on(world, /*lets_in=*/true);
}

const std::shared_ptr<WorldState>& state_of(const World& world) {
  return world.state_;
}

} // namespace comm

namespace {

std::shared_ptr<comm::WorldState> join(
    const comm::Environment& environment,
    const comm::CommSettings& settings) {
  switch (environment.launcher) {
    case comm::Launcher::zero_run: {
      auto roster =
          comm::Roster::attach(base::SharedMapping::open(environment.roster));
      if (roster.size() != environment.size) {
        throw ConfigError(c10::str(
            "this rank was told that there are ",
            environment.size,
            " ranks, but the world has ",
            roster.size(),
            ". Fix: leave ZERO_SIZE or WORLD_SIZE as the launcher set it"));
      }
      return comm::join_world(
          std::move(roster),
          environment.newcomer.value_or(environment.rank),
          settings);
    }
    case comm::Launcher::torchrun:
      return comm::join_world(
          comm::meet(
              environment.meeting,
              environment.rank,
              environment.size,
              settings.progress_timeout_seconds),
          environment.rank,
          settings);
    case comm::Launcher::torchrun_hosts:
    case comm::Launcher::mpi: {
      auto meeting =
          comm::meet_over_mpi(environment, settings.progress_timeout_seconds);
      return comm::join_world(
          meeting.roster,
          meeting.rank,
          settings,
          std::move(meeting.outside),
          std::move(meeting.segment));
    }
    case comm::Launcher::none:
      break;
  }
  return comm::join_world(comm::Roster::create(1), 0, settings);
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
  auto state = join(environment, settings);
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

int World::local_rank() const {
  const auto group = state_->current();
  return group->reach().hosts().local_rank(group->rank());
}

int World::local_size() const {
  const auto group = state_->current();
  const auto& reach = group->reach();
  return static_cast<int>(reach.hosts().ranks_of(reach.host()).size());
}

int World::node() const {
  return state_->current()->reach().host();
}

int World::num_nodes() const {
  return state_->current()->reach().hosts().num_hosts();
}

bool World::is_joining() const {
  return state_->is_joining;
}

Communicator World::communicator() const {
  comm::require_joined(*state_);
  return Communicator(state_->current());
}

void World::barrier() const {
  communicator().barrier();
}

void World::shrink() {
  comm::require_joined(*state_);
  state_->shrink();
}

} // namespace zero

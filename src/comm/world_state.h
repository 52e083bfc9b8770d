// Defines what is behind a World: this rank's place, and the group of all.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "comm/membership.h"
#include "comm/shm/group.h"

namespace zero::comm {

// What is built on a world, and goes on with those who are left of it.
class Dependent {
 public:
  virtual ~Dependent() = default;
  // Collective over those who are left. Throws: CommError; if more ranks are
  // lost, it is called again with those who are left then.
  virtual void go_on_with(const std::shared_ptr<Group>& survivors) = 0;
};

struct WorldState {
  std::shared_ptr<Membership> membership;
  mutable std::mutex mutex;
  std::shared_ptr<Group> group; // another one after shrink()
  std::vector<Dependent*> dependents; // as they were made, on every rank

  std::shared_ptr<Group> current() const {
    const std::lock_guard lock(mutex);
    return group;
  }
  void shrink();

  void add(Dependent* dependent);
  void remove(Dependent* dependent);
};

// Collective over those who are left, when ranks are lost: the world shrinks,
// and everything that is built on it goes on with it. All of it, since one rank
// may learn of the loss in one thing, and another in the next.
// Requires: no other thread uses what is built on it.
void go_on_without_the_lost(WorldState& world);

// Joins the roster as `id`, and forms the group of all ranks. Over several
// hosts their segment is there already.
std::shared_ptr<WorldState> join_world(
    Roster roster,
    int id,
    const CommSettings& settings,
    std::shared_ptr<const Outside> outside = nullptr,
    std::shared_ptr<base::SharedMapping> segment = nullptr);

} // namespace zero::comm

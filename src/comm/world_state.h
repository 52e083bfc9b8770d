// Defines what is behind a World: this rank's place, and the group of all.
#pragma once

#include <memory>
#include <mutex>

#include "comm/membership.h"
#include "comm/shm/group.h"

namespace zero::comm {

struct WorldState {
  std::shared_ptr<Membership> membership;
  mutable std::mutex mutex;
  std::shared_ptr<Group> group; // another one after shrink()

  std::shared_ptr<Group> current() const {
    const std::lock_guard lock(mutex);
    return group;
  }
};

// Joins the roster as `id`, and forms the group of all ranks. Over several
// hosts their segment is there already.
std::shared_ptr<WorldState> join_world(
    Roster roster,
    int id,
    const CommSettings& settings,
    std::shared_ptr<const Outside> outside = nullptr,
    std::shared_ptr<base::SharedMapping> segment = nullptr);

} // namespace zero::comm

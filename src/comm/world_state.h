// Defines what is behind a World: this rank's place, and the group of all.
//
// Note [Newcomers]
// A launcher may start a process in place of one that was lost. It has an id of
// its own, and init() there waits for nobody: its group is provisional, a
// number and a size. The others train on meanwhile. When the newcomer has
// something to take part in, it comes as a guest to where they agree on their
// next membership (Note [Guests] in assembly.h), and waits. They see it there,
// and agree, as they agree on an update anyway, to let it in where the next
// round begins: all of them, since one that is elsewhere in its program would
// wait for the newcomer in a call that this one has never heard of. Then they
// meet as after a loss, in the same place, so that whoever is lost meanwhile,
// all come to the same result; newcomers are the last ranks, so that rank 0 is
// always one that has what is trained.
#pragma once

#include <cstddef>
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
  virtual bool is_between_rounds() const = 0;
};

struct WorldState {
  std::shared_ptr<Membership> membership;
  mutable std::mutex mutex;
  std::shared_ptr<Group> group; // another one after shrink()
  std::vector<Dependent*> dependents; // as they were made, on every rank
  // All ranks have agreed to let newcomers in where the next round begins.
  bool lets_in = false;
  bool is_joining = false; // this one is a newcomer, and the group provisional
  // A newcomer's: how many dependents the others have.
  size_t num_expected = 0;

  std::shared_ptr<Group> current() const {
    const std::lock_guard lock(mutex);
    return group;
  }
  void shrink(bool lets_in_now = false);

  void add(Dependent* dependent);
  void remove(Dependent* dependent);
};

// Collective over those who are left, when ranks are lost: the world shrinks,
// and everything that is built on it goes on with it. All of it, since one rank
// may learn of the loss in one thing, and another in the next.
// Requires: no other thread uses what is built on it.
void go_on_without_the_lost(WorldState& world);

// The same when nobody is lost, or somebody may be: ranks that have agreed on
// it let newcomers in.
void let_in_newcomers(WorldState& world);

// For a newcomer: waits until the others let it in. Throws: PeerLost if nobody
// is left who could, CommTimeout, IoError.
void join_the_others(WorldState& world);

// Throws: ConfigError in a newcomer that has not been let in.
void require_joined(const WorldState& world);

// Joins the roster as `id`, and forms the group of all ranks; a newcomer does
// not wait for them. Over several hosts their segment is there already.
std::shared_ptr<WorldState> join_world(
    Roster roster,
    int id,
    const CommSettings& settings,
    std::shared_ptr<const Outside> outside = nullptr,
    std::shared_ptr<base::SharedMapping> segment = nullptr);

} // namespace zero::comm

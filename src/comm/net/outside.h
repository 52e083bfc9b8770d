// Defines Outside: what the ranks of a host have to do with other hosts. A
// world on one host has none.
//
// Each host has a roster of all ranks. Those of other hosts are told of by what
// is here: each rank tells how it is, and ranks of one host what becomes of
// each other, since only they see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/net/hosts.h"
#include "comm/net/mirror.h"
#include "comm/roster.h"

namespace zero::comm {

// Numbers of what is mirrored: these two are there from the beginning.
inline constexpr uint32_t kRosterNumber = 0;
inline constexpr uint32_t kWorldNumber = 1;

class Outside {
 public:
  Outside(
      std::unique_ptr<Link> link,
      const Hosts& hosts,
      const Roster& roster,
      std::shared_ptr<base::SharedMapping> roster_memory);
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

  const Hosts& hosts() const {
    return hosts_;
  }
  const std::shared_ptr<Mirror>& mirror() const {
    return mirror_;
  }
  bool is_here(int id) const {
    return hosts_.host_of(id) == host_;
  }
  // Whether those who are left can go on when a rank is lost.
  bool survives_losses() const {
    return survives_losses_;
  }

  // A number for something that is mirrored, given what every rank that has it
  // proposes: one that all of them have had none above.
  int64_t proposed_number() const {
    return next_number_;
  }
  uint32_t take_number(const std::vector<int64_t>& proposed) const;

  // When this rank has left: until all others have, too, since on each host one
  // receives for the others. Not if one was lost.
  void leave_with_the_others(const Roster& roster, int id) const;

  // To all other hosts: what this one's roster says of a rank.
  void tell_status(const Roster& roster, int id) const;
  void tell_heartbeat(const Roster& roster, int id) const;

 private:
  int receiver(const Roster& roster, int id, int host) const;

  Hosts hosts_;
  int id_; // this rank
  int host_;
  bool survives_losses_;
  Roster roster_;
  std::shared_ptr<Mirror> mirror_;
  mutable std::atomic<int64_t> next_number_ = kWorldNumber + 1;
};

} // namespace zero::comm

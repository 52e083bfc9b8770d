// Defines HostGatherer: the Gatherer of ranks that share memory with the others
// of their host. A unit comes once for all of them, into its place in the
// parameters' sparse copy, and all have one budget.
//
// Note [One budget per host]
// Any of the host's ranks brings a unit, and any drops one that none of them
// uses now: the one that the first of them to need it again needs last, by the
// order of use, which is taken to be the same for all. A storage is therefore
// shown only while an operator or a guard of its own rank uses it: another rank
// could drop it at any other time.
//
// Only what comes from other hosts counts, and moves: what ranks of this host
// own is always in its place.
#pragma once

#include "base/shared_mapping.h"
#include "comm/shm/group.h"
#include "gather/gatherer.h"
#include "gather/residents.h"

namespace zero::gather {

class HostGatherer final : public Gatherer {
 public:
  // Collective.
  HostGatherer(
      const std::vector<const shard::Partition*>& partitions,
      const std::shared_ptr<comm::Group>& group,
      const GatherOptions& options);
  ~HostGatherer() override;

  // This rank's share of what its host has.
  int64_t gathered_bytes() const override;
  int64_t gathered_peak_bytes() const override;

 private:
  struct Unit {
    int64_t bytes = 0; // of other hosts
    int num_pins = 0; // of this rank
    bool is_shown = false; // its storage points at its place
  };

  int64_t bytes_of(int number) const override {
    return unit(number).bytes;
  }
  State state(int number) const override;
  bool is_held(int number) const override {
    return unit(number).num_pins > 0;
  }
  void acquire(Lock& lock, int number) override;
  void let_go(int number) override;
  bool claim_ahead(int number, int64_t uses_from_now) override;
  shard::Partition::Reading read(int number) const override;
  void arrived(int number) override {
    residents_.arrived(number);
  }
  void give_up(int number) override;
  bool may_be_dropped(int number) const override;
  int64_t uses_until(int number) const override;
  void drop(int number) override;
  int64_t present_bytes() const override {
    return residents_.bytes();
  }
  void refresh(Lock& lock) override;
  void moved(int number) override;

  Unit& unit(int number) {
    return units_[static_cast<size_t>(number)];
  }
  const Unit& unit(int number) const {
    return units_[static_cast<size_t>(number)];
  }
  std::byte* place_of(int number) const;
  void show_or_hide(int number);
  bool needs_bringing(Lock& lock, int number);
  int await(int number) const;
  int64_t share_of(int64_t bytes) const;

  std::vector<Unit> units_;
  int local_rank_;
  int num_ranks_; // of this host
  std::shared_ptr<base::SharedMapping> memory_;
  Residents residents_;
  uint8_t round_ = 0;
};

} // namespace zero::gather

// Defines RankGatherer: the Gatherer of a rank that gathers for itself, into
// memory of its own. Where ranks do not share memory.
#pragma once

#include "gather/gatherer.h"
#include "gather/slab.h"

namespace zero::gather {

class RankGatherer final : public Gatherer {
 public:
  RankGatherer(
      const std::vector<const shard::Partition*>& partitions,
      std::shared_ptr<comm::TrafficCounters> traffic,
      const GatherOptions& options);
  ~RankGatherer() override;

  int64_t gathered_bytes() const override;
  int64_t gathered_peak_bytes() const override;

 private:
  struct Unit {
    int64_t bytes = 0;
    State state = State::absent;
    int num_pins = 0;
    std::byte* block = nullptr; // while it is not absent
  };

  int64_t bytes_of(int number) const override {
    return unit(number).bytes;
  }
  State state(int number) const override {
    return unit(number).state;
  }
  bool is_held(int number) const override {
    return unit(number).num_pins > 0;
  }
  void acquire(Lock& lock, int number) override;
  void let_go(int number) override {
    --unit(number).num_pins;
  }
  bool claim_ahead(int number, int64_t uses_from_now) override;
  shard::Partition::Reading read(int number) const override;
  void arrived(int number) override;
  void give_up(int number) override;
  bool may_be_dropped(int number) const override;
  int64_t uses_until(int number) const override {
    return order().uses_until(number);
  }
  void drop(int number) override;
  int64_t present_bytes() const override {
    return present_bytes_;
  }
  void all_dropped() override {
    slab_.free_unused();
  }
  void refresh(Lock& lock) override;
  void moved(int /*number*/) override {} // the values are the same

  Unit& unit(int number) {
    return units_[static_cast<size_t>(number)];
  }
  const Unit& unit(int number) const {
    return units_[static_cast<size_t>(number)];
  }
  void claim(int number, std::byte* block);
  std::byte* make_room(int64_t bytes, int64_t only_if_later_than);

  std::vector<Unit> units_;
  Slab slab_;
  int64_t present_bytes_ = 0; // or arriving
  int64_t peak_bytes_ = 0;
};

} // namespace zero::gather

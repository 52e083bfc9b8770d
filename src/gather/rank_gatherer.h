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
    int idle_place = -1; // in idle_, -1 if it is not there
    std::byte* block = nullptr; // while it is not absent
  };

  State state(int number) const override {
    return units_[static_cast<size_t>(number)].state;
  }
  bool is_held(int number) const override {
    return units_[static_cast<size_t>(number)].num_pins > 0;
  }
  void acquire(Lock& lock, int number) override;
  void release(int number) override;
  std::optional<Fetch> begin_ahead(
      Lock& lock,
      int number,
      int64_t uses_from_now) override;
  void end_ahead(Lock& lock, const Fetch& fetch) override;
  void drop_all(Lock& lock) override;
  void refresh(Lock& lock) override;
  void moved(int /*number*/) override {} // the values are the same

  Unit& unit(int number) {
    return units_[static_cast<size_t>(number)];
  }
  void hold(int number);
  void let_go(int number);
  void set_idle(int number, bool idle);
  void fetch(Lock& lock, int number, std::byte* block);
  Fetch begin_fetch(Lock& lock, int number, std::byte* block);
  void end_fetch(Lock& lock, const Fetch& fetch);
  void fetch_persistent(Lock& lock);
  void drop(int number);
  void give_up(int number);
  bool drop_one(int64_t only_if_later_than);
  std::byte* make_room(int64_t bytes, int64_t only_if_later_than);

  std::vector<Unit> units_;
  std::vector<int> idle_; // present, and used by nobody: what may be dropped
  Slab slab_;
  int64_t present_bytes_ = 0; // or arriving
  int64_t peak_bytes_ = 0;
};

} // namespace zero::gather

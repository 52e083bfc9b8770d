// Defines Gatherer: makes parameters that are partitioned over the ranks
// present when an operator needs them, and drops them when the budget asks for
// it.
//
// Reading is never a collective: a unit is copied out of the other ranks'
// shards, which do not change between two updates, without those ranks taking
// part. The engine pauses it while shards change.
//
// Thread-safe: operators run in any thread, and a thread of its own fetches
// ahead of need.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/traffic_counters.h"
#include "gather/order.h"
#include "gather/slab.h"
#include "observe/operator_observer.h"
#include "shard/partition.h"

namespace zero::gather {

struct GatherOptions {
  int64_t budget_bytes = 0; // beyond what operators use at the moment
  int64_t prefetch_numel = 0; // elements ahead of need, at most
  int64_t persistent_numel = 0; // smaller units stay present
};

struct GatherStatistics {
  int64_t uses = 0; // of units, by outermost operators
  int64_t hits = 0; // the unit was there
  int64_t waits = 0; // it was on its way
  int64_t gathers = 0; // units copied, for whatever reason
  int64_t prefetches = 0; // of these, ahead of need
  int64_t surprises = 0; // uses that were not in the order of the step before
};

class Gatherer : private observe::OperatorListener {
 public:
  // Partitions whose parameters are partitioned; they outlive it. Takes the
  // storages of all their parameters, which are then absent.
  Gatherer(
      const std::vector<const shard::Partition*>& partitions,
      std::shared_ptr<comm::TrafficCounters> traffic,
      const GatherOptions& options);
  ~Gatherer() override; // parameters are left absent

  // Makes the parameter present until unpinned. Nests.
  void pin(const at::Tensor& parameter);
  void unpin(const at::Tensor& parameter);

  // Drops everything, and fetches nothing until resumed: shards change.
  void pause();
  // The step is over.
  void resume();

  // While paused: what was in one partition is in others now, with the same
  // values.
  void move_units(
      const shard::Partition* from,
      const std::vector<const shard::Partition*>& to);

  // What fetching failed with, if it did: operators cannot throw it.
  void throw_failure() const;

  int64_t gathered_bytes() const;
  int64_t gathered_peak_bytes() const;
  GatherStatistics statistics() const;

 private:
  enum class State {
    absent, // no memory
    arriving, // has memory, being filled
    present, // full
  };
  struct Unit {
    const shard::Partition* partition = nullptr;
    int number = 0; // in its partition
    int64_t bytes = 0;
    State state = State::absent;
    int num_pins = 0;
    int idle_place = -1; // in idle_, -1 if it is not there
    std::byte* block = nullptr;
  };
  // A unit to fetch ahead of need, and where to.
  struct Ahead {
    int number = -1;
    std::byte* block = nullptr; // nullptr: there is nothing to do
  };
  // One that is on its way.
  struct Fetch {
    int number = -1;
    shard::Partition::Reading reading;
  };
  using Lock = std::unique_lock<std::mutex>;

  void before_use(int unit) noexcept override;
  void after_use(int unit) noexcept override;

  Unit& unit(int number) {
    return units_[static_cast<size_t>(number)];
  }
  int unit_of(const at::Tensor& parameter) const;
  void acquire(Lock& lock, int number);
  void release(int number);
  void hold(int number);
  void let_go(int number);
  void set_idle(int number, bool idle);
  void fetch(Lock& lock, int number, std::byte* block);
  Fetch begin_fetch(Lock& lock, int number, std::byte* block);
  void end_fetch(Lock& lock, const Fetch& fetch);
  void fetch_persistent(Lock& lock);
  shard::Partition::Reading read(const Unit& unit) const;
  void show(const Unit& unit) const;
  static std::string no_memory_message(const Unit& wanted);
  void drop(int number);
  bool drop_one(int64_t only_if_later_than);
  std::byte* make_room(int64_t bytes, int64_t only_if_later_than);
  void prefetch();
  void end_prefetch(Lock& lock, const Fetch& fetch);
  Ahead next_to_prefetch();

  std::vector<Unit> units_;
  std::vector<int> idle_; // present, and used by nobody: what may be dropped
  std::shared_ptr<comm::TrafficCounters> traffic_;
  GatherOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_; // a unit has arrived, or gone
  std::condition_variable wanted_; // for the thread
  Slab slab_;
  OrderOfUse order_;
  int64_t present_bytes_ = 0; // or arriving
  int64_t peak_bytes_ = 0;
  GatherStatistics statistics_;
  std::exception_ptr failure_;
  bool paused_ = false;
  bool stop_ = false;
  std::thread thread_;
};

} // namespace zero::gather

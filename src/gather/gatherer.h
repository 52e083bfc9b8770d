// Defines Gatherer: makes parameters that are partitioned over the ranks
// present when an operator needs them, and drops them when the budget asks for
// it. Where they lie meanwhile is the business of its two kinds, RankGatherer
// and HostGatherer.
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
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/traffic_counters.h"
#include "gather/order.h"
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
  ~Gatherer() override = default; // parameters are left absent
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  // Makes the parameter present until unpinned. Nests.
  void pin(const at::Tensor& parameter);
  void unpin(const at::Tensor& parameter);

  // Drops everything, and fetches nothing until resumed: shards change, and no
  // rank computes any more.
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

  GatherStatistics statistics() const;
  virtual int64_t gathered_bytes() const = 0;
  virtual int64_t gathered_peak_bytes() const = 0;

 protected:
  using Lock = std::unique_lock<std::mutex>;
  enum class State {
    absent,
    arriving, // being filled
    present,
  };
  // One that is on its way.
  struct Fetch {
    int unit = -1;
    int64_t bytes = 0;
    shard::Partition::Reading reading;
  };

  // Partitions whose parameters can be absent; they outlive it. Takes the
  // storages of all their parameters, which are then absent.
  Gatherer(
      const std::vector<const shard::Partition*>& partitions,
      std::shared_ptr<comm::TrafficCounters> traffic,
      const GatherOptions& options);

  // The last thing that a constructor does, and the first of a destructor.
  void begin();
  void end();

  // What a kind knows of a unit, and does with it. All of these with the lock,
  // but for read().
  virtual int64_t bytes_of(int unit) const = 0; // that count in the budget
  virtual State state(int unit) const = 0;
  virtual bool is_held(int unit) const = 0; // by an operator, or a guard
  // Holds it, and returns when it is here. What could not be brought is held
  // all the same. Throws: std::bad_alloc, CommError.
  virtual void acquire(Lock& lock, int unit) = 0;
  virtual void let_go(int unit) = 0;
  // Makes it arriving if there is room for it. Nothing is dropped for it that
  // is needed sooner than so many uses from now: it would have to come back at
  // once.
  virtual bool claim_ahead(int unit, int64_t uses_from_now) = 0;
  // Without the lock. Throws: std::bad_alloc.
  virtual shard::Partition::Reading read(int unit) const = 0;
  virtual void arrived(int unit) = 0;
  virtual void give_up(int unit) = 0; // it could not be fetched: it is absent
  virtual bool may_be_dropped(int unit) const = 0;
  virtual int64_t uses_until(int unit) const = 0;
  virtual void drop(int unit) = 0;
  virtual int64_t present_bytes() const = 0; // or arriving
  // Everything was dropped that nobody holds.
  virtual void all_dropped() {}
  // Brings what stayed because somebody reads it up to date in its place.
  virtual void refresh(Lock& lock) = 0;
  virtual void moved(int unit) = 0; // to another partition

  // Of what is arriving by that. Without the lock while it comes; what it fails
  // with is remembered. Throws: std::bad_alloc, CommError.
  void fetch(Lock& lock, int unit) {
    end_fetch(lock, begin_fetch(lock, unit));
  }
  Fetch begin_fetch(Lock& lock, int unit);
  void end_fetch(Lock& lock, const Fetch& fetch);
  bool drop_one(int64_t only_if_later_than);

  int num_units() const {
    return static_cast<int>(members_.size());
  }
  const shard::Partition& partition_of(int unit) const {
    return *members_[static_cast<size_t>(unit)].partition;
  }
  int number_of(int unit) const { // in its partition
    return members_[static_cast<size_t>(unit)].number;
  }
  const shard::Parameter& parameter_of(int unit) const {
    return partition_of(unit).parameter(number_of(unit));
  }
  bool is_persistent(int unit) const;
  const GatherOptions& options() const {
    return options_;
  }
  const OrderOfUse& order() const {
    return order_;
  }

  std::string no_memory_message(int unit) const;
  void count(const shard::Partition::Reading& reading);
  void show(int unit, std::byte* data) const;
  void hide(int unit) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_; // a fetch has ended, well or not

 private:
  struct Member {
    const shard::Partition* partition = nullptr;
    int number = 0;
    std::string absent_message;
  };

  void before_use(int unit) noexcept override;
  void after_use(int unit) noexcept override;
  int unit_of(const at::Tensor& parameter) const;
  void release(int unit);
  void prefetch();
  std::optional<Fetch> begin_next(Lock& lock);
  std::optional<Fetch> begin_ahead(Lock& lock, int unit, int64_t uses_from_now);
  void end_ahead(Lock& lock, const Fetch& fetch);

  std::vector<Member> members_;
  std::shared_ptr<comm::TrafficCounters> traffic_;
  GatherOptions options_;
  std::condition_variable wanted_; // for the thread
  OrderOfUse order_;
  GatherStatistics statistics_;
  std::exception_ptr failure_;
  int num_under_way_ = 0; // fetches, by whichever thread
  bool is_used_ = false; // in the last step, or in this one
  bool paused_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// The kind that the partitions' home asks for. Collective where it is sparse.
std::unique_ptr<Gatherer> make_gatherer(
    const std::vector<const shard::Partition*>& partitions,
    const std::shared_ptr<comm::Group>& group,
    const GatherOptions& options);

} // namespace zero::gather

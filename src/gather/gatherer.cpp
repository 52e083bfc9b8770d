#include "gather/gatherer.h"

#include <algorithm>
#include <deque>

#include "base/activity.h"
#include "base/error.h"
#include "gather/host_gatherer.h"
#include "gather/rank_gatherer.h"
#include "shard/storage.h"

namespace zero::gather {

namespace {

// What is on another host is a while on its way: units fetched ahead are asked
// for before those asked for earlier have come. On one host it is a copy, which
// the thread makes of one at a time, so that who needs another need not wait.
constexpr int64_t kBytesUnderWay = 4 << 20;

std::string absent_message(const std::string& name) {
  return c10::str(
      "parameter '",
      name,
      "' is partitioned over the ranks and not here. Fix: read it while a "
      "guard of engine.gather() lives");
}

int count_units(const std::vector<const shard::Partition*>& partitions) {
  size_t count = 0;
  for (const auto* partition : partitions) {
    count += partition->parameters().size();
  }
  return static_cast<int>(count);
}

} // namespace

std::unique_ptr<Gatherer> make_gatherer(
    const std::vector<const shard::Partition*>& partitions,
    const std::shared_ptr<comm::Group>& group,
    const GatherOptions& options) {
  if (partitions.front()->parameter_home() == shard::Home::sparse) {
    return std::make_unique<HostGatherer>(partitions, group, options);
  }
  return std::make_unique<RankGatherer>(partitions, group->traffic(), options);
}

Gatherer::Gatherer(
    const std::vector<const shard::Partition*>& partitions,
    std::shared_ptr<comm::TrafficCounters> traffic,
    const GatherOptions& options)
    : traffic_(std::move(traffic)),
      options_(options),
      order_(count_units(partitions)) {
  for (const auto* partition : partitions) {
    int number = 0;
    for (const auto& parameter : partition->parameters()) {
      members_.push_back(
          {.partition = partition,
           .number = number++,
           .absent_message = absent_message(parameter.name())});
      if (parameter.storage.nbytes() > 0) {
        hide(num_units() - 1);
      }
    }
  }
}

void Gatherer::begin() {
  std::vector<const c10::StorageImpl*> storages;
  for (int unit = 0; unit < num_units(); ++unit) {
    storages.push_back(parameter_of(unit).storage.unsafeGetStorageImpl());
  }
  thread_ = std::thread([this] { prefetch(); });
  observe::OperatorObserver::instance().watch(storages, this);
}

void Gatherer::end() {
  observe::OperatorObserver::instance().unwatch(this);
  {
    const Lock lock(mutex_);
    stop_ = true;
    wanted_.notify_one();
  }
  thread_.join();
}

std::string Gatherer::no_memory_message(int unit) const {
  const auto& parameter = parameter_of(unit);
  return c10::str(
      "no memory for the ",
      parameter.storage.nbytes(),
      " bytes of parameter '",
      parameter.name(),
      "'. Fix: free memory, lower libzero.gather_budget, or use smaller "
      "layers");
}

int Gatherer::unit_of(const at::Tensor& parameter) const {
  for (int unit = 0; unit < num_units(); ++unit) {
    if (parameter_of(unit).tensor.is_same(parameter)) {
      return unit;
    }
  }
  return -1;
}

void Gatherer::pin(const at::Tensor& parameter) {
  const int unit = unit_of(parameter);
  if (unit < 0) {
    return;
  }
  Lock lock(mutex_);
  try {
    acquire(lock, unit);
  } catch (const std::bad_alloc&) {
    release(unit);
    throw IoError(no_memory_message(unit));
  } catch (const CommError&) {
    release(unit);
    throw;
  }
}

void Gatherer::unpin(const at::Tensor& parameter) {
  const int unit = unit_of(parameter);
  if (unit >= 0) {
    const Lock lock(mutex_);
    release(unit);
  }
}

void Gatherer::before_use(int unit) noexcept {
  Lock lock(mutex_);
  if (!is_held(unit)) {
    ++statistics_.uses;
    statistics_.hits += state(unit) == State::present ? 1 : 0;
    statistics_.waits += state(unit) == State::arriving ? 1 : 0;
    order_.use(unit);
    is_used_ = true;
  }
  try {
    acquire(lock, unit);
  } catch (const std::bad_alloc&) {
    // The operator finds it absent, and throws what is said here.
    shard::make_absent(parameter_of(unit).storage, no_memory_message(unit));
  } catch (const CommError& error) {
    shard::make_absent(parameter_of(unit).storage, error.what());
  }
  wanted_.notify_one();
}

void Gatherer::after_use(int unit) noexcept {
  const Lock lock(mutex_);
  release(unit);
}

bool Gatherer::is_persistent(int unit) const {
  return partition_of(unit).layout().parameter(number_of(unit)).numel() <
      options_.persistent_numel;
}

void Gatherer::count(const shard::Partition::Reading& reading) {
  ++statistics_.gathers;
  traffic_->count(CommOp::get, reading.received);
  traffic_->count_from_other_hosts(reading.from_other_hosts);
}

void Gatherer::show(int unit, std::byte* data) const {
  shard::point_at(parameter_of(unit).storage, data, nullptr);
}

void Gatherer::hide(int unit) const {
  shard::make_absent(
      parameter_of(unit).storage,
      members_[static_cast<size_t>(unit)].absent_message);
}

Gatherer::Fetch Gatherer::begin_fetch(Lock& lock, int unit) {
  shard::Partition::Reading reading;
  std::exception_ptr failure;
  ++num_under_way_;
  lock.unlock();
  try {
    reading = read(unit);
  } catch (const std::bad_alloc&) {
    failure = std::current_exception();
  }
  lock.lock();
  if (failure) {
    --num_under_way_;
    give_up(unit);
    changed_.notify_all();
    std::rethrow_exception(failure);
  }
  count(reading);
  return {unit, bytes_of(unit), std::move(reading)};
}

void Gatherer::end_fetch(Lock& lock, const Fetch& fetch) {
  lock.unlock();
  std::exception_ptr failure;
  try {
    const base::Span span(base::Activity::gather);
    fetch.reading.bytes->wait();
  } catch (const CommError&) { // whoever has it is lost
    failure = std::current_exception();
  }
  lock.lock();
  --num_under_way_;
  changed_.notify_all();
  if (failure) {
    failure_ = failure;
    give_up(fetch.unit);
    std::rethrow_exception(failure);
  }
  arrived(fetch.unit);
}

void Gatherer::release(int unit) {
  // What was needed beyond the budget is not needed any more. This one stays
  // until there is need for another: often the next operator uses it again, as
  // a product does after the view of its transpose. A budget of 0 keeps
  // nothing.
  const bool kept = options_.budget_bytes > 0;
  if (!kept) {
    let_go(unit);
  }
  while (present_bytes() > options_.budget_bytes && drop_one(-1)) {
  }
  if (kept) {
    let_go(unit);
  }
}

// Drops the unit that is needed last, of those that may be dropped and are
// needed later than so many uses from now. False if there is none.
bool Gatherer::drop_one(int64_t only_if_later_than) {
  int last = -1;
  int64_t latest = only_if_later_than;
  // None is needed later than never.
  for (int unit = 0; unit < num_units() && latest < OrderOfUse::kNever;
       ++unit) {
    const int64_t next = may_be_dropped(unit) ? uses_until(unit) : -1;
    if (next > latest) {
      latest = next;
      last = unit;
    }
  }
  if (last < 0) {
    return false;
  }
  drop(last);
  return true;
}

// The next absent unit in the order of use, if there is room for it.
std::optional<Gatherer::Fetch> Gatherer::begin_next(Lock& lock) {
  if (paused_ || stop_ || !is_used_) {
    return std::nullopt;
  }
  int64_t numel = 0;
  for (int64_t ahead = 0;; ++ahead) {
    const int unit = order_.expected(ahead);
    if (unit < 0) {
      return std::nullopt;
    }
    numel += partition_of(unit).layout().parameter(number_of(unit)).numel();
    if (numel > options_.prefetch_numel) {
      return std::nullopt;
    }
    if (state(unit) == State::absent) {
      return begin_ahead(lock, unit, ahead);
    }
  }
}

std::optional<Gatherer::Fetch> Gatherer::begin_ahead(
    Lock& lock,
    int unit,
    int64_t uses_from_now) {
  if (bytes_of(unit) > options_.budget_bytes ||
      !claim_ahead(unit, uses_from_now)) {
    return std::nullopt;
  }
  try {
    return begin_fetch(lock, unit);
  } catch (const std::bad_alloc&) { // who needs it gets the same error
    return std::nullopt;
  }
}

void Gatherer::end_ahead(Lock& lock, const Fetch& fetch) {
  try {
    end_fetch(lock, fetch);
  } catch (const CommError&) { // likewise
    paused_ = true;
  }
}

void Gatherer::prefetch() {
  const bool is_one_host = !partition_of(0).window()->reach;
  const int64_t limit = is_one_host ? 1 : kBytesUnderWay;
  std::deque<Fetch> under_way;
  int64_t bytes = 0; // of these
  Lock lock(mutex_);
  while (!stop_ || !under_way.empty()) {
    auto next = bytes < limit ? begin_next(lock) : std::nullopt;
    if (next) {
      ++statistics_.prefetches;
      bytes += next->bytes;
      under_way.push_back(std::move(*next));
    } else if (!under_way.empty()) {
      end_ahead(lock, under_way.front());
      bytes -= under_way.front().bytes;
      under_way.pop_front();
    } else {
      wanted_.wait(lock);
    }
  }
}

void Gatherer::pause() {
  Lock lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [this] { return num_under_way_ == 0; });
  for (int unit = 0; unit < num_units(); ++unit) {
    if (may_be_dropped(unit)) {
      drop(unit);
    }
  }
  all_dropped();
}

void Gatherer::resume() {
  Lock lock(mutex_);
  // A rank that has joined uses nothing any more, nor does it fetch ahead.
  is_used_ = order_.end_step();
  refresh(lock);
  paused_ = false;
  wanted_.notify_one();
}

void Gatherer::move_units(
    const shard::Partition* from,
    const std::vector<const shard::Partition*>& to) {
  const Lock lock(mutex_);
  ZERO_CHECK(paused_);
  for (int unit = 0; unit < num_units(); ++unit) {
    auto& member = members_[static_cast<size_t>(unit)];
    if (member.partition != from) {
      continue;
    }
    const auto tensor = parameter_of(unit).tensor;
    for (const auto* partition : to) {
      const int number = partition->number_of(tensor);
      if (number >= 0) {
        member.partition = partition;
        member.number = number;
      }
    }
    ZERO_CHECK(member.partition != from);
    moved(unit);
  }
}

void Gatherer::throw_failure() const {
  const Lock lock(mutex_);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

GatherStatistics Gatherer::statistics() const {
  const Lock lock(mutex_);
  GatherStatistics statistics = statistics_;
  statistics.surprises = order_.num_surprises();
  return statistics;
}

} // namespace zero::gather

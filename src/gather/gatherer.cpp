#include "gather/gatherer.h"

#include <algorithm>
#include <deque>

#include "base/activity.h"
#include "base/error.h"
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

} // namespace

std::string Gatherer::no_memory_message(const Unit& wanted) {
  return c10::str(
      "no memory for the ",
      wanted.bytes,
      " bytes of parameter '",
      wanted.partition->parameter(wanted.number).name(),
      "'. Fix: free memory, lower libzero.gather_budget, or use smaller "
      "layers");
}

Gatherer::Gatherer(
    const std::vector<const shard::Partition*>& partitions,
    std::shared_ptr<comm::TrafficCounters> traffic,
    const GatherOptions& options)
    : traffic_(std::move(traffic)),
      options_(options),
      slab_(options.budget_bytes),
      order_([&] {
        size_t count = 0;
        for (const auto* partition : partitions) {
          count += partition->parameters().size();
        }
        return static_cast<int>(count);
      }()) {
  std::vector<const c10::StorageImpl*> storages;
  for (const auto* partition : partitions) {
    int number = 0;
    for (const auto& parameter : partition->parameters()) {
      units_.push_back(
          {.partition = partition,
           .number = number++,
           .bytes = static_cast<int64_t>(parameter.storage.nbytes())});
      storages.push_back(parameter.storage.unsafeGetStorageImpl());
      if (units_.back().bytes > 0) {
        shard::make_absent(parameter.storage, absent_message(parameter.name()));
      } else {
        units_.back().state = State::present; // there is nothing to gather
      }
    }
  }
  {
    Lock lock(mutex_);
    fetch_persistent(lock);
  }
  thread_ = std::thread([this] { prefetch(); });
  observe::OperatorObserver::instance().watch(storages, this);
}

Gatherer::~Gatherer() {
  observe::OperatorObserver::instance().unwatch(this);
  {
    const Lock lock(mutex_);
    stop_ = true;
    wanted_.notify_one();
  }
  thread_.join();
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].state == State::present && units_[i].bytes > 0) {
      drop(static_cast<int>(i));
    }
  }
}

int Gatherer::unit_of(const at::Tensor& parameter) const {
  for (size_t i = 0; i < units_.size(); ++i) {
    const auto& candidate = units_[i];
    if (candidate.partition->parameter(candidate.number)
            .tensor.is_same(parameter)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void Gatherer::pin(const at::Tensor& parameter) {
  const int number = unit_of(parameter);
  if (number < 0) {
    return;
  }
  Lock lock(mutex_);
  try {
    acquire(lock, number);
  } catch (const std::bad_alloc&) {
    release(number);
    throw IoError(no_memory_message(unit(number)));
  } catch (const CommError&) {
    release(number);
    throw;
  }
}

void Gatherer::unpin(const at::Tensor& parameter) {
  const int number = unit_of(parameter);
  if (number >= 0) {
    const Lock lock(mutex_);
    release(number);
  }
}

void Gatherer::before_use(int number) noexcept {
  Lock lock(mutex_);
  if (unit(number).num_pins == 0) {
    ++statistics_.uses;
    statistics_.hits += unit(number).state == State::present ? 1 : 0;
    statistics_.waits += unit(number).state == State::arriving ? 1 : 0;
    order_.use(number);
  }
  try {
    acquire(lock, number);
  } catch (const std::bad_alloc&) {
    // The operator finds it absent, and throws what is said here.
    const auto& wanted = unit(number);
    shard::make_absent(
        wanted.partition->parameter(wanted.number).storage,
        no_memory_message(wanted));
  } catch (const CommError& error) {
    const auto& wanted = unit(number);
    shard::make_absent(
        wanted.partition->parameter(wanted.number).storage, error.what());
  }
  wanted_.notify_one();
}

void Gatherer::after_use(int number) noexcept {
  const Lock lock(mutex_);
  release(number);
}

void Gatherer::acquire(Lock& lock, int number) {
  auto& wanted = unit(number);
  hold(number);
  if (wanted.state == State::arriving) {
    const base::Span span(base::Activity::wait);
    changed_.wait(lock, [&] { return wanted.state != State::arriving; });
  }
  if (wanted.state == State::absent) {
    std::byte* block = make_room(wanted.bytes, -1);
    fetch(
        lock,
        number,
        block != nullptr ? block : slab_.allocate_apart(wanted.bytes));
  }
}

void Gatherer::release(int number) {
  // What was needed beyond the budget is not needed any more. This one stays
  // until there is need for another: often the next operator uses it again, as
  // a product does after the view of its transpose. A budget of 0 keeps
  // nothing.
  const bool kept = options_.budget_bytes > 0;
  if (!kept) {
    let_go(number);
  }
  while (present_bytes_ > options_.budget_bytes && drop_one(-1)) {
  }
  if (kept) {
    let_go(number);
  }
}

void Gatherer::hold(int number) {
  ++unit(number).num_pins;
  set_idle(number, false);
}

void Gatherer::let_go(int number) {
  auto& released = unit(number);
  --released.num_pins;
  set_idle(
      number,
      released.num_pins == 0 && released.state == State::present &&
          released.bytes > 0);
}

void Gatherer::set_idle(int number, bool idle) {
  int& place = unit(number).idle_place;
  if (idle == (place >= 0)) {
    return;
  }
  if (idle) {
    place = static_cast<int>(idle_.size());
    idle_.push_back(number);
  } else {
    const int moved = idle_.back();
    idle_[static_cast<size_t>(place)] = moved;
    unit(moved).idle_place = place;
    idle_.pop_back();
    place = -1;
  }
}

// For somebody who holds it. Without the lock while it copies.
void Gatherer::fetch(Lock& lock, int number, std::byte* block) {
  end_fetch(lock, begin_fetch(lock, number, block));
}

Gatherer::Fetch Gatherer::begin_fetch(
    Lock& lock,
    int number,
    std::byte* block) {
  auto& wanted = unit(number);
  wanted.block = block;
  wanted.state = State::arriving;
  present_bytes_ += wanted.bytes;
  peak_bytes_ = std::max(peak_bytes_, present_bytes_);
  ++statistics_.gathers;
  lock.unlock();
  Fetch fetch{number, read(wanted)};
  lock.lock();
  return fetch;
}

void Gatherer::end_fetch(Lock& lock, const Fetch& fetch) {
  auto& wanted = unit(fetch.number);
  lock.unlock();
  std::exception_ptr failure;
  try {
    const base::Span span(base::Activity::gather);
    fetch.reading.bytes->wait();
  } catch (const CommError&) { // whoever has it is lost
    failure = std::current_exception();
  }
  lock.lock();
  changed_.notify_all();
  if (failure) {
    failure_ = failure;
    slab_.free(wanted.block);
    wanted.block = nullptr;
    wanted.state = State::absent;
    present_bytes_ -= wanted.bytes;
    std::rethrow_exception(failure);
  }
  show(wanted);
  wanted.state = State::present;
}

shard::Partition::Reading Gatherer::read(const Unit& wanted) const {
  auto reading = wanted.partition->read(wanted.number, wanted.block);
  traffic_->count(CommOp::get, reading.received);
  return reading;
}

void Gatherer::show(const Unit& wanted) const {
  shard::point_at(
      wanted.partition->parameter(wanted.number).storage,
      wanted.block,
      nullptr);
}

void Gatherer::drop(int number) {
  set_idle(number, false);
  auto& dropped = unit(number);
  const auto& parameter = dropped.partition->parameter(dropped.number);
  shard::make_absent(parameter.storage, absent_message(parameter.name()));
  slab_.free(dropped.block);
  dropped.block = nullptr;
  dropped.state = State::absent;
  present_bytes_ -= dropped.bytes;
}

// Drops the unit that is needed last, of those that nobody uses now and that
// are needed later than so many uses from now. False if there is none.
bool Gatherer::drop_one(int64_t only_if_later_than) {
  int last = -1;
  int64_t latest = only_if_later_than;
  for (const int candidate : idle_) {
    const int64_t next = order_.uses_until(candidate);
    if (next > latest) {
      latest = next;
      last = candidate;
    }
    if (next == OrderOfUse::kNever) {
      break; // none is needed later
    }
  }
  if (last < 0) {
    return false;
  }
  drop(last);
  return true;
}

// Room in the slab, also of what is needed later than so many uses from now.
// nullptr if there is none.
std::byte* Gatherer::make_room(int64_t bytes, int64_t only_if_later_than) {
  while (present_bytes_ + bytes > options_.budget_bytes &&
         drop_one(only_if_later_than)) {
  }
  std::byte* block = slab_.allocate(bytes);
  while (block == nullptr && drop_one(only_if_later_than)) {
    block = slab_.allocate(bytes);
  }
  return block;
}

// The next absent unit in the order of use, if there is room for it. Nothing is
// dropped for it that is needed sooner: it would have to come back at once.
Gatherer::Ahead Gatherer::next_to_prefetch() {
  if (paused_ || stop_) {
    return {};
  }
  int64_t numel = 0;
  for (int64_t ahead = 0;; ++ahead) {
    const int number = order_.expected(ahead);
    if (number < 0) {
      return {};
    }
    auto& next = unit(number);
    numel += next.partition->layout().parameter(next.number).numel();
    if (numel > options_.prefetch_numel || next.bytes > options_.budget_bytes) {
      return {};
    }
    if (next.state != State::absent) {
      continue;
    }
    std::byte* block = make_room(next.bytes, ahead);
    if (block != nullptr &&
        present_bytes_ + next.bytes > options_.budget_bytes) {
      slab_.free(block);
      block = nullptr;
    }
    return {number, block};
  }
}

void Gatherer::prefetch() {
  const bool is_one_host = !units_.front().partition->window()->reach;
  const int64_t limit = is_one_host ? 1 : kBytesUnderWay;
  std::deque<Fetch> under_way;
  int64_t bytes = 0; // of these
  Lock lock(mutex_);
  while (!stop_ || !under_way.empty()) {
    const Ahead next = bytes < limit ? next_to_prefetch() : Ahead{};
    if (next.block != nullptr) {
      ++statistics_.prefetches;
      hold(next.number); // so that room is not made of it
      bytes += unit(next.number).bytes;
      under_way.push_back(begin_fetch(lock, next.number, next.block));
    } else if (!under_way.empty()) {
      end_prefetch(lock, under_way.front());
      bytes -= unit(under_way.front().number).bytes;
      under_way.pop_front();
    } else {
      wanted_.wait(lock);
    }
  }
}

void Gatherer::end_prefetch(Lock& lock, const Fetch& fetch) {
  try {
    end_fetch(lock, fetch);
  } catch (const CommError&) { // who needs it gets the same error
    paused_ = true;
  }
  let_go(fetch.number);
}

void Gatherer::fetch_persistent(Lock& lock) {
  for (size_t i = 0; i < units_.size(); ++i) {
    const auto& each = units_[i];
    const bool persistent =
        each.partition->layout().parameter(each.number).numel() <
        options_.persistent_numel;
    if (persistent && each.state == State::absent) {
      const int number = static_cast<int>(i);
      hold(number); // for good
      fetch(lock, number, slab_.allocate_apart(each.bytes));
    }
  }
}

void Gatherer::pause() {
  Lock lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [&] {
    return std::none_of(units_.begin(), units_.end(), [](const Unit& each) {
      return each.state == State::arriving;
    });
  });
  while (!idle_.empty()) {
    drop(idle_.back());
  }
  slab_.free_unused();
}

void Gatherer::resume() {
  Lock lock(mutex_);
  order_.end_step();
  // What stayed because somebody reads it is brought up to date in its place.
  for (const auto& each : units_) {
    if (each.state == State::present && each.bytes > 0) {
      read(each).bytes->wait();
    }
  }
  paused_ = false;
  wanted_.notify_one();
}

void Gatherer::move_units(
    const shard::Partition* from,
    const std::vector<const shard::Partition*>& to) {
  const Lock lock(mutex_);
  ZERO_CHECK(paused_);
  for (auto& each : units_) {
    if (each.partition != from) {
      continue;
    }
    const auto tensor = from->parameter(each.number).tensor;
    for (const auto* partition : to) {
      const int number = partition->number_of(tensor);
      if (number >= 0) {
        each.partition = partition;
        each.number = number;
      }
    }
    ZERO_CHECK(each.partition != from);
  }
}

void Gatherer::throw_failure() const {
  const Lock lock(mutex_);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

int64_t Gatherer::gathered_bytes() const {
  const Lock lock(mutex_);
  return present_bytes_;
}

int64_t Gatherer::gathered_peak_bytes() const {
  const Lock lock(mutex_);
  return peak_bytes_;
}

GatherStatistics Gatherer::statistics() const {
  const Lock lock(mutex_);
  GatherStatistics statistics = statistics_;
  statistics.surprises = order_.num_surprises();
  return statistics;
}

} // namespace zero::gather

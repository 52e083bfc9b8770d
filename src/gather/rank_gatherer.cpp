#include "gather/rank_gatherer.h"

#include <algorithm>

#include "base/activity.h"
#include "base/error.h"

namespace zero::gather {

RankGatherer::RankGatherer(
    const std::vector<const shard::Partition*>& partitions,
    std::shared_ptr<comm::TrafficCounters> traffic,
    const GatherOptions& options)
    : Gatherer(partitions, std::move(traffic), options),
      slab_(options.budget_bytes) {
  for (int number = 0; number < num_units(); ++number) {
    auto& added = units_.emplace_back();
    added.bytes = static_cast<int64_t>(parameter_of(number).storage.nbytes());
    if (added.bytes == 0) {
      added.state = State::present; // there is nothing to gather
    }
  }
  Lock lock(mutex_);
  fetch_persistent(lock);
  lock.unlock();
  begin();
}

RankGatherer::~RankGatherer() {
  end();
  for (int number = 0; number < num_units(); ++number) {
    if (state(number) == State::present && unit(number).bytes > 0) {
      drop(number);
    }
  }
}

void RankGatherer::acquire(Lock& lock, int number) {
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

void RankGatherer::release(int number) {
  // What was needed beyond the budget is not needed any more. This one stays
  // until there is need for another: often the next operator uses it again, as
  // a product does after the view of its transpose. A budget of 0 keeps
  // nothing.
  const bool kept = options().budget_bytes > 0;
  if (!kept) {
    let_go(number);
  }
  while (present_bytes_ > options().budget_bytes && drop_one(-1)) {
  }
  if (kept) {
    let_go(number);
  }
}

void RankGatherer::hold(int number) {
  ++unit(number).num_pins;
  set_idle(number, false);
}

void RankGatherer::let_go(int number) {
  auto& released = unit(number);
  --released.num_pins;
  set_idle(
      number,
      released.num_pins == 0 && released.state == State::present &&
          released.bytes > 0);
}

void RankGatherer::set_idle(int number, bool idle) {
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
void RankGatherer::fetch(Lock& lock, int number, std::byte* block) {
  end_fetch(lock, begin_fetch(lock, number, block));
}

Gatherer::Fetch RankGatherer::begin_fetch(
    Lock& lock,
    int number,
    std::byte* block) {
  auto& wanted = unit(number);
  wanted.block = block;
  wanted.state = State::arriving;
  present_bytes_ += wanted.bytes;
  peak_bytes_ = std::max(peak_bytes_, present_bytes_);
  shard::Partition::Reading reading;
  lock.unlock();
  try {
    reading = partition_of(number).read(number_of(number), block);
  } catch (...) {
    lock.lock();
    give_up(number);
    throw;
  }
  lock.lock();
  count(reading);
  return {number, wanted.bytes, std::move(reading)};
}

void RankGatherer::end_fetch(Lock& lock, const Fetch& fetch) {
  auto& wanted = unit(fetch.unit);
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
    remember(failure);
    give_up(fetch.unit);
    std::rethrow_exception(failure);
  }
  show(fetch.unit, wanted.block);
  wanted.state = State::present;
}

void RankGatherer::drop(int number) {
  set_idle(number, false);
  hide(number);
  give_up(number);
}

void RankGatherer::give_up(int number) {
  auto& dropped = unit(number);
  slab_.free(dropped.block);
  dropped.block = nullptr;
  dropped.state = State::absent;
  present_bytes_ -= dropped.bytes;
  changed_.notify_all();
}

// Drops the unit that is needed last, of those that nobody uses now and that
// are needed later than so many uses from now. False if there is none.
bool RankGatherer::drop_one(int64_t only_if_later_than) {
  int last = -1;
  int64_t latest = only_if_later_than;
  for (const int candidate : idle_) {
    const int64_t next = order().uses_until(candidate);
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
std::byte* RankGatherer::make_room(int64_t bytes, int64_t only_if_later_than) {
  while (present_bytes_ + bytes > options().budget_bytes &&
         drop_one(only_if_later_than)) {
  }
  std::byte* block = slab_.allocate(bytes);
  while (block == nullptr && drop_one(only_if_later_than)) {
    block = slab_.allocate(bytes);
  }
  return block;
}

std::optional<Gatherer::Fetch> RankGatherer::begin_ahead(
    Lock& lock,
    int number,
    int64_t uses_from_now) {
  const int64_t bytes = unit(number).bytes;
  if (bytes > options().budget_bytes) {
    return std::nullopt;
  }
  std::byte* block = make_room(bytes, uses_from_now);
  if (block == nullptr) {
    return std::nullopt;
  }
  if (present_bytes_ + bytes > options().budget_bytes) {
    slab_.free(block);
    return std::nullopt;
  }
  hold(number); // so that room is not made of it
  return begin_fetch(lock, number, block);
}

void RankGatherer::end_ahead(Lock& lock, const Fetch& fetch) {
  try {
    end_fetch(lock, fetch);
  } catch (const CommError&) {
    let_go(fetch.unit);
    throw;
  }
  let_go(fetch.unit);
}

void RankGatherer::fetch_persistent(Lock& lock) {
  for (int number = 0; number < num_units(); ++number) {
    if (is_persistent(number) && state(number) == State::absent) {
      hold(number); // for good
      fetch(lock, number, slab_.allocate_apart(unit(number).bytes));
    }
  }
}

void RankGatherer::drop_all(Lock& lock) {
  changed_.wait(lock, [this] {
    return std::none_of(units_.begin(), units_.end(), [](const Unit& each) {
      return each.state == State::arriving;
    });
  });
  while (!idle_.empty()) {
    drop(idle_.back());
  }
  slab_.free_unused();
}

// All of it is on its way at once: it may come from other hosts.
void RankGatherer::refresh(Lock& /*lock*/) {
  std::vector<shard::Partition::Reading> readings;
  for (int number = 0; number < num_units(); ++number) {
    const auto& each = unit(number);
    if (each.state == State::present && each.bytes > 0) {
      readings.push_back(
          partition_of(number).read(number_of(number), each.block));
      count(readings.back());
    }
  }
  for (const auto& reading : readings) {
    reading.bytes->wait();
  }
}

int64_t RankGatherer::gathered_bytes() const {
  const Lock lock(mutex_);
  return present_bytes_;
}

int64_t RankGatherer::gathered_peak_bytes() const {
  const Lock lock(mutex_);
  return peak_bytes_;
}

} // namespace zero::gather

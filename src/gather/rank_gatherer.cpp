#include "gather/rank_gatherer.h"

#include <algorithm>

#include "base/activity.h"

namespace zero::gather {

RankGatherer::RankGatherer(
    const std::vector<const shard::Partition*>& partitions,
    std::shared_ptr<comm::TrafficCounters> traffic,
    const GatherOptions& options)
    : Gatherer(partitions, std::move(traffic), options),
      slab_(options.budget_bytes) {
  Lock lock(mutex_);
  for (int number = 0; number < num_units(); ++number) {
    auto& added = units_.emplace_back();
    added.bytes = static_cast<int64_t>(parameter_of(number).storage.nbytes());
    if (added.bytes == 0) {
      added.state = State::present; // there is nothing to gather
    } else if (is_persistent(number)) {
      ++added.num_pins; // for good
      claim(number, slab_.allocate_apart(added.bytes));
      fetch(lock, number);
    }
  }
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
  ++wanted.num_pins;
  if (wanted.state == State::arriving) {
    const base::Span span(base::Activity::wait);
    changed_.wait(lock, [&] { return wanted.state != State::arriving; });
  }
  if (wanted.state == State::absent) {
    std::byte* block = make_room(wanted.bytes, -1);
    claim(
        number, block != nullptr ? block : slab_.allocate_apart(wanted.bytes));
    fetch(lock, number);
  }
}

void RankGatherer::claim(int number, std::byte* block) {
  auto& wanted = unit(number);
  wanted.block = block;
  wanted.state = State::arriving;
  present_bytes_ += wanted.bytes;
  peak_bytes_ = std::max(peak_bytes_, present_bytes_);
}

bool RankGatherer::claim_ahead(int number, int64_t uses_from_now) {
  const int64_t bytes = unit(number).bytes;
  std::byte* block = make_room(bytes, uses_from_now);
  if (block == nullptr) {
    return false;
  }
  if (present_bytes_ + bytes > options().budget_bytes) {
    slab_.free(block);
    return false;
  }
  claim(number, block);
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

shard::Partition::Reading RankGatherer::read(int number) const {
  return partition_of(number).read(number_of(number), unit(number).block);
}

void RankGatherer::arrived(int number) {
  show(number, unit(number).block);
  unit(number).state = State::present;
}

void RankGatherer::give_up(int number) {
  auto& dropped = unit(number);
  slab_.free(dropped.block);
  dropped.block = nullptr;
  dropped.state = State::absent;
  present_bytes_ -= dropped.bytes;
}

bool RankGatherer::may_be_dropped(int number) const {
  const auto& each = unit(number);
  return each.state == State::present && each.num_pins == 0 && each.bytes > 0;
}

void RankGatherer::drop(int number) {
  hide(number);
  give_up(number);
}

// All of it is on its way at once: it may come from other hosts.
void RankGatherer::refresh(Lock& /*lock*/) {
  std::vector<shard::Partition::Reading> readings;
  for (int number = 0; number < num_units(); ++number) {
    if (state(number) == State::present && unit(number).bytes > 0) {
      readings.push_back(read(number));
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

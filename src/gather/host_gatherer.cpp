#include "gather/host_gatherer.h"

#include <zero/communicator.h>

#include <algorithm>

#include "base/activity.h"
#include "base/error.h"

namespace zero::gather {

namespace {

int count_here(const comm::Reach& reach) {
  return static_cast<int>(reach.hosts().ranks_of(reach.host()).size());
}

std::shared_ptr<base::SharedMapping> make_memory(
    comm::Group& group,
    size_t bytes) {
  auto memory = group.share(
      CommOp::window,
      group.leader_here(),
      [&] { return base::SharedMapping::create("zero-residents", bytes); },
      [](base::SharedMapping&) {});
  memory->close_address();
  return memory;
}

} // namespace

HostGatherer::HostGatherer(
    const std::vector<const shard::Partition*>& partitions,
    const std::shared_ptr<comm::Group>& group,
    const GatherOptions& options)
    : Gatherer(partitions, group->traffic(), options),
      local_rank_(group->reach().hosts().local_rank(group->rank())),
      num_ranks_(count_here(group->reach())),
      memory_(
          make_memory(*group, Residents::bytes_for(num_units(), num_ranks_))),
      residents_(memory_->data(), num_ranks_, local_rank_) {
  for (int number = 0; number < num_units(); ++number) {
    auto& added = units_.emplace_back();
    added.bytes = partition_of(number).missing_bytes(number_of(number));
    if (is_persistent(number)) {
      ++added.num_pins; // for good
      residents_.pin(number);
    }
    show_or_hide(number);
  }
  Lock lock(mutex_);
  refresh(lock);
  lock.unlock();
  begin();
}

HostGatherer::~HostGatherer() {
  end();
  for (int number = 0; number < num_units(); ++number) {
    if (parameter_of(number).storage.nbytes() > 0) {
      hide(number);
    }
    // The others may go on.
    for (; unit(number).num_pins > 0; --unit(number).num_pins) {
      residents_.unpin(number);
    }
  }
}

std::byte* HostGatherer::place_of(int number) const {
  const auto& partition = partition_of(number);
  const auto range = partition.layout().parameter(number_of(number));
  return partition.parameter_at(partition.rank(), range.begin, 0);
}

Gatherer::State HostGatherer::state(int number) const {
  if (unit(number).bytes == 0) {
    return State::present;
  }
  switch (residents_.state(number)) {
    case Residents::State::present:
      return State::present;
    case Residents::State::arriving:
      return State::arriving;
    default:
      return State::absent;
  }
}

void HostGatherer::acquire(Lock& lock, int number) {
  ++unit(number).num_pins;
  residents_.pin(number);
  residents_.set_position(order().position());
  if (unit(number).is_shown) {
    return;
  }
  if (needs_bringing(lock, number)) {
    fetch(lock, number);
  }
  show_or_hide(number);
}

// What ranks of this host own is shown for good.
void HostGatherer::show_or_hide(int number) {
  auto& each = unit(number);
  if (parameter_of(number).storage.nbytes() == 0) {
    each.is_shown = true; // there is nothing to show
    return;
  }
  each.is_shown = each.num_pins > 0 || each.bytes == 0;
  if (each.is_shown) {
    show(number, place_of(number));
  } else {
    hide(number);
  }
}

// Whether it is up to this rank, which has claimed it then, and made room.
bool HostGatherer::needs_bringing(Lock& lock, int number) {
  for (;;) {
    switch (residents_.claim(number, round_)) {
      case Residents::Claim::present:
        return false;
      case Residents::Claim::stale:
        return true;
      case Residents::Claim::absent: {
        const int64_t bytes = unit(number).bytes;
        while (residents_.bytes() + bytes > options().budget_bytes &&
               drop_one(-1)) {
        }
        residents_.add_bytes(bytes); // it is needed, also beyond the budget
        return true;
      }
      case Residents::Claim::arriving: {
        lock.unlock();
        const int local_rank = await(number);
        lock.lock();
        if (local_rank >= 0) {
          const auto& window = *partition_of(number).window();
          const auto& hosts = window.reach->hosts();
          const auto& here = hosts.ranks_of(window.reach->host());
          window.throw_if_lost(here[static_cast<size_t>(local_rank)]);
        }
      }
    }
  }
}

int HostGatherer::await(int number) const {
  const base::Span span(base::Activity::wait);
  return residents_.wait(number);
}

shard::Partition::Reading HostGatherer::read(int number) const {
  const auto& partition = partition_of(number);
  try {
    partition.reserve_missing(number_of(number));
  } catch (const IoError&) {
    throw std::bad_alloc();
  }
  return partition.read_missing(number_of(number));
}

void HostGatherer::give_up(int number) {
  residents_.subtract_bytes(unit(number).bytes);
  residents_.failed(number);
}

void HostGatherer::let_go(int number) {
  residents_.unpin(number);
  if (--unit(number).num_pins == 0 && unit(number).bytes > 0) {
    show_or_hide(number);
  }
}

// By whichever rank of the host needs it first.
int64_t HostGatherer::uses_until(int number) const {
  int64_t first = OrderOfUse::kNever;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    first =
        std::min(first, order().uses_until(number, residents_.position(rank)));
  }
  return first;
}

bool HostGatherer::may_be_dropped(int number) const {
  return residents_.state(number) == Residents::State::present &&
      !residents_.is_pinned(number);
}

// Unless another rank has been quicker, to drop or to use it.
void HostGatherer::drop(int number) {
  if (residents_.begin_drop(number)) {
    partition_of(number).discard_missing(number_of(number));
    residents_.subtract_bytes(unit(number).bytes);
    residents_.end_drop(number);
  }
}

bool HostGatherer::claim_ahead(int number, int64_t uses_from_now) {
  const int64_t bytes = unit(number).bytes;
  while (!residents_.add_bytes_within(options().budget_bytes, bytes)) {
    if (!drop_one(uses_from_now)) {
      return false;
    }
  }
  const auto claim = residents_.claim(number, round_);
  if (claim != Residents::Claim::absent) {
    residents_.subtract_bytes(bytes); // somebody has counted it
  }
  return claim == Residents::Claim::absent || claim == Residents::Claim::stale;
}

// All of it is on its way at once. What several ranks hold, one of them brings.
void HostGatherer::refresh(Lock& lock) {
  ++round_;
  residents_.set_position(0);
  std::vector<Fetch> fetches;
  std::exception_ptr failure;
  for (int number = 0; number < num_units() && !failure; ++number) {
    if (!is_held(number) || unit(number).bytes == 0) {
      continue;
    }
    const auto claim = residents_.claim(number, round_);
    if (claim == Residents::Claim::absent) {
      residents_.add_bytes(unit(number).bytes);
    }
    try {
      if (claim == Residents::Claim::absent ||
          claim == Residents::Claim::stale) {
        fetches.push_back(begin_fetch(lock, number));
      }
    } catch (const std::bad_alloc&) {
      failure = std::make_exception_ptr(IoError(no_memory_message(number)));
    }
  }
  for (const auto& fetch : fetches) {
    try {
      end_fetch(lock, fetch);
    } catch (const CommError&) {
      failure = std::current_exception();
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  for (int number = 0; number < num_units(); ++number) {
    if (is_held(number) && unit(number).bytes > 0) {
      // Brought by now, by this rank or by another that is about to.
      if (needs_bringing(lock, number)) {
        fetch(lock, number);
      }
      show_or_hide(number);
    }
  }
}

void HostGatherer::moved(int number) {
  auto& each = unit(number);
  const int64_t before = each.bytes;
  each.bytes = partition_of(number).missing_bytes(number_of(number));
  // One of the host's ranks corrects what all have counted. What is held is
  // brought to its new place when the round ends.
  const bool is_counted = residents_.is_pinned(number) &&
      residents_.state(number) == Residents::State::present;
  if (is_counted && local_rank_ == 0) {
    residents_.add_bytes(each.bytes - before);
  }
  show_or_hide(number);
}

int64_t HostGatherer::share_of(int64_t bytes) const {
  return chunk_range(bytes, local_rank_, num_ranks_).numel;
}

int64_t HostGatherer::gathered_bytes() const {
  return share_of(residents_.bytes());
}

int64_t HostGatherer::gathered_peak_bytes() const {
  return share_of(residents_.peak_bytes());
}

} // namespace zero::gather

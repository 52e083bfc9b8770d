// What the thread of a Mirror does: it alone uses the link.
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "comm/net/mirror.h"

namespace zero::comm {

namespace {

constexpr int kInOrderTag = 1;
constexpr int kBytesTag = 2;
constexpr int kReadTag = 3;
constexpr int kOvertakingTag = 4;

// The link has nothing that could wake the thread, so it looks again after a
// share of the time that nothing has happened for: often while much comes, and
// seldom enough then to leave the core to who computes. It does not yield: who
// computes would have the core for milliseconds, where one that wakes up from a
// rest has it at once.
constexpr int kLooks = 5;
constexpr int kShareOfQuietTime = 4;
constexpr std::chrono::microseconds kShortestRest(20);
constexpr std::chrono::microseconds kLongestRest(500);

// Who helps does so again within this time, or has ended.
constexpr std::chrono::microseconds kHelpLasts(100);
constexpr std::chrono::microseconds kRestWhileHelped(200);

// For what is still to be sent when the end has come.
constexpr double kFarewellSeconds = 1;

} // namespace

void Mirror::run() {
  // Otherwise the shortest rest would last four times as long.
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  {
    const std::lock_guard driving(driving_);
    for (Source& source : sources_) {
      begin_receiving(source.in_order, source.rank, kInOrderTag);
      begin_receiving(source.overtaking, source.rank, kOvertakingTag);
    }
    is_closed_ = false;
  }
  std::optional<base::TimePoint> farewell;
  for (;;) {
    bool moved = false;
    // Who helps has it only for a moment, and does the same.
    if (const std::unique_lock driving(driving_, std::try_to_lock); driving) {
      moved = step();
      const std::lock_guard lock(mutex_);
      if (stop_ && !farewell) {
        farewell = base::Clock::now();
      }
      const bool all_sent =
          outgoing_.empty() && std::ranges::all_of(lanes_, &Lane::empty);
      if (farewell &&
          (all_sent || base::seconds_since(*farewell) > kFarewellSeconds)) {
        return;
      }
    }
    rest(moved);
  }
}

bool Mirror::step() {
  bool moved = take_opened();
  if (is_closed_) {
    close_passages();
    return moved;
  }
  moved = move_passages() || moved;
  if (is_closed_) { // by one that MPI does not let go of
    return true;
  }
  moved = send_queued() || moved;
  link_->advance();
  moved = finish_sends() || moved;
  moved = finish_reads() || moved;
  for (Source& source : sources_) {
    moved = receive(source) || moved;
  }
  return moved;
}

bool Mirror::help() {
  helped_ = base::Clock::now().time_since_epoch().count();
  const std::unique_lock driving(driving_, std::try_to_lock);
  return driving && step();
}

bool Mirror::is_helped() const {
  const auto since = base::Clock::now().time_since_epoch().count() - helped_;
  return base::Clock::duration(since) < kHelpLasts;
}

bool Mirror::send_queued() {
  {
    const std::lock_guard lock(mutex_);
    has_news_ = false;
  }
  bool moved = false;
  for (const Source& source : sources_) {
    const int to = source.rank;
    if (source.lost || losses_.is_lost(to)) {
      drop_lane(to);
      continue;
    }
    std::vector<Pending> overtaking;
    std::vector<Pending> others;
    {
      const std::lock_guard lock(mutex_);
      Lane& lane = this->lane(to);
      if (lane.received > 0) {
        overtaking.emplace_back().entry = {
            .kind = Kind::received, .bytes = std::exchange(lane.received, 0)};
      }
      std::ranges::move(lane.overtaking, std::back_inserter(overtaking));
      lane.overtaking.clear();
      others = take_what_may_go(lane);
    }
    moved = moved || !overtaking.empty() || !others.empty();
    send_in_batches(std::move(overtaking), to, kOvertakingTag);
    send_in_batches(std::move(others), to, kInOrderTag);
  }
  return moved;
}

// With the mutex.
std::vector<Mirror::Pending> Mirror::take_what_may_go(Lane& lane) const {
  std::vector<Pending> taken;
  for (auto* queue : {&lane.answers, &lane.in_order}) {
    while (!queue->empty()) {
      const Pending& next = queue->front();
      const size_t bytes = next.memory && next.copy.empty()
          ? static_cast<size_t>(next.entry.bytes)
          : 0;
      if (bytes > 0 && lane.under_way >= kWindowBytes) {
        break;
      }
      lane.under_way += bytes;
      taken.push_back(std::move(queue->front()));
      queue->pop_front();
    }
  }
  return taken;
}

// A batch announces what comes behind it, so that there is a place for it.
void Mirror::send_in_batches(std::vector<Pending> all, int to, int tag) {
  std::vector<std::byte> batch;
  std::vector<Pending> announced;
  const auto send = [&] {
    if (!batch.empty()) {
      send_batch(std::exchange(batch, {}), to, tag);
    }
    for (Pending& pending : announced) {
      send_many_bytes(std::move(pending), to, kBytesTag);
    }
    announced.clear();
  };
  for (Pending& pending : all) {
    if (pending.entry.kind == Kind::read && !pending.reading) {
      send_many_bytes(std::move(pending), to, kReadTag);
      continue;
    }
    if (batch.size() + sizeof(Entry) + pending.copy.size() > kBatchBytes) {
      send();
    }
    append(batch, &pending.entry, sizeof(Entry));
    append(batch, pending.copy.data(), pending.copy.size());
    if (pending.reading) {
      pending.reading->transfer = link_->receive(
          to, kReadTag, pending.reading->to, pending.entry.bytes);
      readings_.push_back(std::move(*pending.reading));
    }
    if (pending.entry.kind == Kind::many_bytes) {
      announced.push_back(std::move(pending));
    }
  }
  send();
}

void Mirror::send_batch(std::vector<std::byte> batch, int to, int tag) {
  // Where the bytes lie does not change with the vector that has them.
  const std::byte* data = batch.data();
  const size_t bytes = batch.size();
  outgoing_.push_back(
      {link_->send(to, tag, data, bytes), to, std::move(batch), nullptr});
}

void Mirror::send_many_bytes(Pending pending, int to, int tag) {
  const std::byte* data = pending.memory->data() + pending.entry.offset;
  outgoing_.push_back(
      {link_->send(to, tag, data, pending.entry.bytes),
       to,
       {},
       std::move(pending.memory)});
}

bool Mirror::finish_sends() {
  const size_t before = outgoing_.size();
  std::erase_if(outgoing_, [this](const Outgoing& outgoing) {
    const auto state = outgoing.transfer->state();
    if (state == Transfer::State::failed) {
      losses_.lose(outgoing.to);
    }
    return state != Transfer::State::under_way;
  });
  return outgoing_.size() != before;
}

bool Mirror::finish_reads() {
  const size_t before = readings_.size();
  std::erase_if(readings_, [this](const Reading& reading) {
    auto state = reading.transfer->state();
    if (state == Transfer::State::failed) {
      losses_.lose(reading.from);
    }
    if (state == Transfer::State::under_way && losses_.is_lost(reading.from)) {
      state = Transfer::State::failed;
    }
    if (state == Transfer::State::done) {
      const std::lock_guard lock(mutex_);
      lane(reading.from).received += reading.transfer->bytes();
    }
    if (state != Transfer::State::under_way) {
      reading.done(state == Transfer::State::done);
    }
    return state != Transfer::State::under_way;
  });
  return readings_.size() != before;
}

// Nobody is there to receive it.
void Mirror::drop_lane(int rank) {
  Lane dropped;
  {
    const std::lock_guard lock(mutex_);
    std::swap(dropped, lane(rank));
  }
  for (Pending& pending : dropped.overtaking) {
    if (pending.reading) {
      pending.reading->done(false);
    }
  }
}

void Mirror::begin_receiving(Batches& batches, int rank, int tag) {
  batches.next =
      link_->receive(rank, tag, batches.buffer.data(), batches.buffer.size());
}

bool Mirror::receive(Source& source) {
  if (source.lost) {
    return false;
  }
  const auto overtaking =
      take_batch(source.overtaking, source.rank, kOvertakingTag);
  const auto in_order = take_batch(source.in_order, source.rank, kInOrderTag);
  const std::lock_guard lock(mutex_); // nobody removes a mapping meanwhile
  if (overtaking == Transfer::State::failed ||
      in_order == Transfer::State::failed ||
      losses_.is_out_of_reach(source.rank)) {
    lose(source);
    return true;
  }
  bool moved =
      overtaking == Transfer::State::done || in_order == Transfer::State::done;
  moved = apply_overtaking(source) || moved;
  return apply_in_order(source) || moved;
}

// It has failed, too, if it is not what a libzero of this version sends.
Transfer::State Mirror::take_batch(Batches& batches, int rank, int tag) {
  const auto state = batches.next->state();
  if (state != Transfer::State::done) {
    return state;
  }
  if (!read_batch(batches)) {
    return Transfer::State::failed;
  }
  begin_receiving(batches, rank, tag);
  return state;
}

bool Mirror::read_batch(Batches& batches) {
  const std::byte* at = batches.buffer.data();
  size_t left = batches.next->bytes();
  while (left > 0) {
    Pending& pending = batches.entries.emplace_back();
    Entry& entry = pending.entry;
    if (left < sizeof(Entry)) {
      return false;
    }
    std::memcpy(&entry, at, sizeof(Entry));
    at += sizeof(Entry);
    left -= sizeof(Entry);
    const bool is_word = entry.kind == Kind::word;
    if (!is_word && entry.kind != Kind::bytes) {
      continue; // its bytes are not here
    }
    if (entry.bytes > left ||
        (is_word &&
         (entry.bytes != sizeof(uint64_t) ||
          entry.offset % sizeof(uint64_t) != 0))) {
      return false;
    }
    append(pending.copy, at, entry.bytes);
    at += entry.bytes;
    left -= entry.bytes;
  }
  return true;
}

bool Mirror::is_valid(const Entry& entry, const Mapping& known) const {
  // Who still reads has not removed it, so that it is there.
  if (known.memory == nullptr) {
    return entry.kind != Kind::read;
  }
  return entry.bytes <= known.memory->bytes() &&
      entry.offset <= known.memory->bytes() - entry.bytes;
}

void Mirror::set_word(const Pending& pending, const Mapping& known) const {
  if (known.memory == nullptr) {
    return;
  }
  uint64_t value = 0;
  std::memcpy(&value, pending.copy.data(), sizeof(value));
  reinterpret_cast<std::atomic<uint64_t>*>(
      known.memory->data() + pending.entry.offset)
      ->store(value);
  known.arrived();
}

// With the mutex. What is for a mapping that this rank is about to add waits;
// and behind a read all other reads do, since who asked takes the answers in
// the order in which it has asked.
bool Mirror::apply_overtaking(Source& source) {
  auto& entries = source.overtaking.entries;
  bool is_wrong = false;
  bool reads_wait = false;
  const auto applied = std::erase_if(entries, [&](Pending& pending) {
    const Entry& entry = pending.entry;
    if (entry.kind == Kind::received) {
      auto& under_way = lane(source.rank).under_way;
      is_wrong = is_wrong || entry.bytes > under_way;
      under_way -= std::min<size_t>(entry.bytes, under_way);
      return true;
    }
    if (entry.kind == Kind::asked || entry.kind == Kind::withdrawn) {
      heed(entry, source.rank);
      return true;
    }
    const bool is_read = entry.kind == Kind::read;
    const auto known = mappings_.find(entry.number);
    if (known == mappings_.end() || (is_read && reads_wait)) {
      reads_wait = reads_wait || is_read;
      return false;
    }
    if (!is_valid(entry, known->second) ||
        (!is_read && entry.kind != Kind::word)) {
      is_wrong = true;
    } else if (is_read) {
      pending.memory = known->second.memory;
      lane(source.rank).answers.push_back(std::move(pending));
    } else {
      set_word(pending, known->second);
    }
    return true;
  });
  if (is_wrong) {
    lose(source);
  }
  return applied > 0;
}

// With the mutex. Many bytes are already on their way to their place while
// those before them are: nothing counts before a word says so.
bool Mirror::apply_in_order(Source& source) {
  if (source.lost) {
    return true;
  }
  begin_receiving_many_bytes(source);
  auto& entries = source.in_order.entries;
  bool moved = false;
  while (!source.lost && !entries.empty()) {
    Pending& pending = entries.front();
    const Entry& entry = pending.entry;
    if (entry.kind == Kind::finished) {
      source.finished = true;
      finished_.notify_all();
      entries.pop_front();
      continue;
    }
    const auto known = mappings_.find(entry.number);
    if (known == mappings_.end()) {
      break; // this rank is about to add it
    }
    if (entry.kind == Kind::many_bytes) {
      const auto state = pending.transfer->state();
      if (state == Transfer::State::failed) {
        lose(source);
        return true;
      }
      if (state == Transfer::State::under_way) {
        break;
      }
      lane(source.rank).received += entry.bytes;
    } else if (entry.kind == Kind::removed) {
      forget(entry.number, source.rank);
    } else if (entry.kind == Kind::word) {
      set_word(pending, known->second);
    } else if (const auto& memory = known->second.memory) {
      std::memcpy(
          memory->data() + entry.offset, pending.copy.data(), entry.bytes);
    }
    entries.pop_front();
    moved = true;
  }
  return moved;
}

// With the mutex: of all that are known of.
void Mirror::begin_receiving_many_bytes(Source& source) {
  for (Pending& pending : source.in_order.entries) {
    const Entry& entry = pending.entry;
    if (entry.kind == Kind::finished) {
      continue;
    }
    const auto known = mappings_.find(entry.number);
    if (known == mappings_.end()) {
      return;
    }
    if (entry.kind == Kind::read || entry.kind == Kind::received ||
        entry.kind == Kind::asked || entry.kind == Kind::withdrawn ||
        !is_valid(entry, known->second)) {
      lose(source);
      return;
    }
    if (entry.kind == Kind::many_bytes && !pending.transfer) {
      pending.memory = known->second.memory;
      pending.dropped.resize(pending.memory ? 0 : entry.bytes);
      pending.transfer = link_->receive(
          source.rank,
          kBytesTag,
          pending.memory ? pending.memory->data() + entry.offset
                         : pending.dropped.data(),
          entry.bytes);
    }
  }
}

// With the mutex.
void Mirror::lose(Source& source) {
  source.lost = true;
  finished_.notify_all();
  for (auto* batches : {&source.in_order, &source.overtaking}) {
    batches->entries.clear();
    batches->next.reset();
  }
  for (auto& [number, mapping] : mappings_) {
    forget(number, source.rank);
  }
  std::erase_if(readings_, [&](const Reading& reading) {
    if (reading.from == source.rank) {
      reading.done(false);
    }
    return reading.from == source.rank;
  });
  losses_.lose(source.rank);
}

void Mirror::rest(bool moved) {
  const auto now = base::Clock::now();
  if (is_helped()) {
    quiet_looks_ = 0;
    quiet_since_ = now;
    std::unique_lock lock(mutex_);
    wanted_.wait_for(lock, kRestWhileHelped, [this] { return stop_; });
    return;
  }
  if (moved) {
    quiet_looks_ = 0;
    quiet_since_ = now;
    return;
  }
  if (++quiet_looks_ < kLooks) {
    return;
  }
  const auto quiet =
      std::chrono::duration_cast<std::chrono::microseconds>(now - quiet_since_);
  std::unique_lock lock(mutex_);
  wanted_.wait_for(
      lock,
      std::clamp(quiet / kShareOfQuietTime, kShortestRest, kLongestRest),
      [this] { return has_news_ || stop_; });
}

} // namespace zero::comm

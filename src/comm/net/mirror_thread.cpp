// What the thread of a Mirror does: it alone uses the link.
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

constexpr int kBatchTag = 1;
constexpr int kBytesTag = 2;
constexpr int kReadTag = 3;

// How long the thread looks for news before it sleeps, and for how long then.
// The link has nothing that could wake it.
constexpr int kLooks = 50;
constexpr std::chrono::microseconds kShortRest(50);
constexpr std::chrono::microseconds kLongRest(500);
constexpr int kQuietRounds = 200; // of short rests before the long ones

// For what is still to be sent when the end has come.
constexpr double kFarewellSeconds = 1;

} // namespace

void Mirror::run() {
  std::optional<base::TimePoint> farewell;
  for (;;) {
    bool moved = send_queued();
    moved = finish_sends() || moved;
    moved = finish_reads() || moved;
    for (Source& source : sources_) {
      moved = receive(source) || moved;
    }
    {
      const std::lock_guard lock(mutex_);
      if (stop_ && !farewell) {
        farewell = base::Clock::now();
      }
      const bool all_sent = !has_queued_ && outgoing_.empty();
      if (farewell &&
          (all_sent || base::seconds_since(*farewell) > kFarewellSeconds)) {
        return;
      }
    }
    rest(moved);
  }
}

bool Mirror::send_queued() {
  std::vector<std::deque<Pending>> taken(queued_.size());
  {
    const std::lock_guard lock(mutex_);
    if (!has_queued_) {
      return false;
    }
    taken.swap(queued_);
    has_queued_ = false;
  }
  for (int to = 0; to < link_->size(); ++to) {
    std::vector<std::byte> batch;
    std::vector<Outgoing> many;
    for (Pending& pending : taken[static_cast<size_t>(to)]) {
      if (batch.size() + sizeof(Entry) + pending.copy.size() > kBatchBytes) {
        send_batch(std::exchange(batch, {}), to);
      }
      append(batch, &pending.entry, sizeof(Entry));
      append(batch, pending.copy.data(), pending.copy.size());
      if (pending.reading) {
        pending.reading->transfer = link_->receive(
            to, kReadTag, pending.reading->to, pending.entry.bytes);
        readings_.push_back(std::move(*pending.reading));
      }
      if (pending.entry.kind == Kind::many_bytes) {
        const std::byte* data = pending.memory->data() + pending.entry.offset;
        many.push_back(
            {link_->send(to, kBytesTag, data, pending.entry.bytes),
             to,
             {},
             std::move(pending.memory)});
      }
    }
    if (!batch.empty()) {
      send_batch(std::move(batch), to);
    }
    std::move(many.begin(), many.end(), std::back_inserter(outgoing_));
  }
  return true;
}

void Mirror::send_batch(std::vector<std::byte> batch, int to) {
  // Where the bytes lie does not change with the vector that has them.
  const std::byte* data = batch.data();
  const size_t bytes = batch.size();
  outgoing_.push_back(
      {link_->send(to, kBatchTag, data, bytes), to, std::move(batch), nullptr});
}

bool Mirror::finish_sends() {
  const size_t before = outgoing_.size();
  std::erase_if(outgoing_, [this](const Outgoing& outgoing) {
    const auto state = outgoing.transfer->poll();
    if (state == Transfer::State::failed) {
      lost_(outgoing.to);
    }
    return state != Transfer::State::under_way;
  });
  return outgoing_.size() != before;
}

bool Mirror::finish_reads() {
  const size_t before = readings_.size();
  std::erase_if(readings_, [this](const Reading& reading) {
    auto state = reading.transfer->poll();
    if (state == Transfer::State::failed) {
      lost_(reading.from);
    }
    if (state == Transfer::State::under_way && is_lost_(reading.from)) {
      state = Transfer::State::failed;
    }
    if (state != Transfer::State::under_way) {
      reading.done(state == Transfer::State::done);
    }
    return state != Transfer::State::under_way;
  });
  return readings_.size() != before;
}

// With the mutex.
void Mirror::answer(const Source& source, const Pending& pending) {
  const auto& memory = mappings_.at(pending.entry.number).memory;
  outgoing_.push_back(
      {link_->send(
           source.rank,
           kReadTag,
           memory->data() + pending.entry.offset,
           pending.entry.bytes),
       source.rank,
       {},
       memory});
}

void Mirror::begin_receiving(Source& source) {
  source.batch = link_->receive(
      source.rank, kBatchTag, source.buffer.data(), source.buffer.size());
}

bool Mirror::receive(Source& source) {
  if (source.lost) {
    return false;
  }
  bool moved = false;
  switch (source.batch->poll()) {
    case Transfer::State::under_way:
      break;
    case Transfer::State::failed: {
      const std::lock_guard lock(mutex_);
      lose(source);
      return true;
    }
    case Transfer::State::done:
      if (!take_batch(source)) {
        const std::lock_guard lock(mutex_);
        lose(source);
        return true;
      }
      begin_receiving(source);
      moved = true;
  }
  return apply(source) || moved;
}

// False if it is not what a libzero of this version sends.
bool Mirror::take_batch(Source& source) {
  const std::byte* at = source.buffer.data();
  size_t left = source.batch->bytes();
  while (left > 0) {
    Pending& pending = source.entries.emplace_back();
    Entry& entry = pending.entry;
    if (left < sizeof(Entry)) {
      return false;
    }
    std::memcpy(&entry, at, sizeof(Entry));
    at += sizeof(Entry);
    left -= sizeof(Entry);
    if (entry.kind == Kind::many_bytes || entry.kind == Kind::read ||
        entry.kind == Kind::removed || entry.kind == Kind::finished) {
      continue;
    }
    const bool is_word = entry.kind == Kind::word;
    if (entry.bytes > left || (!is_word && entry.kind != Kind::bytes) ||
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

// In order, but many bytes are already on their way to their place while those
// before them are: nothing counts before a word says so.
bool Mirror::apply(Source& source) {
  const std::lock_guard lock(mutex_); // nobody removes a mapping meanwhile
  for (Pending& pending : source.entries) {
    if (pending.entry.kind == Kind::finished) {
      continue;
    }
    const auto known = mappings_.find(pending.entry.number);
    if (known == mappings_.end()) {
      break; // this rank is about to add it
    }
    const auto& memory = known->second.memory;
    const bool is_inside = memory == nullptr ||
        (pending.entry.bytes <= memory->bytes() &&
         pending.entry.offset <= memory->bytes() - pending.entry.bytes);
    // Who still reads has not removed it, so that it is there.
    if (!is_inside || (pending.entry.kind == Kind::read && memory == nullptr)) {
      lose(source);
      return true;
    }
    if (pending.entry.kind == Kind::many_bytes && !pending.transfer) {
      pending.memory = known->second.memory;
      pending.dropped.resize(pending.memory ? 0 : pending.entry.bytes);
      pending.transfer = link_->receive(
          source.rank,
          kBytesTag,
          pending.memory ? pending.memory->data() + pending.entry.offset
                         : pending.dropped.data(),
          pending.entry.bytes);
    }
  }
  bool moved = false;
  while (!source.entries.empty()) {
    Pending& pending = source.entries.front();
    const Entry& entry = pending.entry;
    if (entry.kind == Kind::finished) {
      source.finished = true;
      finished_.notify_all();
      source.entries.pop_front();
      continue;
    }
    const auto known = mappings_.find(entry.number);
    if (known == mappings_.end()) {
      break;
    }
    const auto& memory = known->second.memory;
    if (entry.kind == Kind::many_bytes) {
      const auto state = pending.transfer->poll();
      if (state == Transfer::State::failed) {
        lose(source);
        return true;
      }
      if (state == Transfer::State::under_way) {
        break;
      }
    } else if (entry.kind == Kind::read) {
      answer(source, pending);
    } else if (entry.kind == Kind::removed) {
      forget(entry.number, source.rank);
    } else if (memory != nullptr && entry.kind == Kind::word) {
      uint64_t value = 0;
      std::memcpy(&value, pending.copy.data(), sizeof(value));
      reinterpret_cast<std::atomic<uint64_t>*>(memory->data() + entry.offset)
          ->store(value);
      known->second.arrived();
    } else if (memory != nullptr) {
      std::memcpy(
          memory->data() + entry.offset, pending.copy.data(), entry.bytes);
    }
    source.entries.pop_front();
    moved = true;
  }
  return moved;
}

// With the mutex.
void Mirror::lose(Source& source) {
  source.lost = true;
  finished_.notify_all();
  source.entries.clear();
  source.batch.reset();
  for (auto& [number, mapping] : mappings_) {
    forget(number, source.rank);
  }
  std::erase_if(readings_, [&](const Reading& reading) {
    if (reading.from == source.rank) {
      reading.done(false);
    }
    return reading.from == source.rank;
  });
  lost_(source.rank);
}

void Mirror::rest(bool moved) {
  if (moved) {
    quiet_rounds_ = 0;
    return;
  }
  if (++quiet_rounds_ < kLooks) {
    std::this_thread::yield();
    return;
  }
  std::unique_lock lock(mutex_);
  wanted_.wait_for(
      lock,
      quiet_rounds_ < kLooks + kQuietRounds ? kShortRest : kLongRest,
      [this] { return has_queued_ || stop_; });
}

} // namespace zero::comm

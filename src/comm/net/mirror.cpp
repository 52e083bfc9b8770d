#include "comm/net/mirror.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "comm/net/keep_for_good.h"

namespace zero::comm {

namespace {

// Up to this size bytes go with their batch.
constexpr size_t kFewBytes = size_t{4} << 10;

// All ranks have come to their end, and little is left to be sent.
constexpr std::chrono::seconds kTimeToFinish(30);

} // namespace

void Mirror::append(
    std::vector<std::byte>& to,
    const void* from,
    size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

Mirror::Mirror(std::unique_ptr<Link> link, const Hosts& hosts, Losses losses)
    : link_(std::move(link)),
      losses_(std::move(losses)),
      lanes_(static_cast<size_t>(hosts.num_ranks())) {
  for (int rank = 0; rank < hosts.num_ranks(); ++rank) {
    if (hosts.host_of(rank) != hosts.host_of(link_->rank())) {
      Source source;
      source.rank = rank;
      source.in_order.buffer.resize(kBatchBytes);
      source.overtaking.buffer.resize(kBatchBytes);
      sources_.push_back(std::move(source));
    }
  }
  thread_ = std::thread([this] { run(); });
}

Mirror::~Mirror() {
  stop();
}

void Mirror::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) {
      return;
    }
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
  const std::lock_guard driving(driving_);
  is_closed_ = true;
  for (Reading& reading : readings_) {
    reading.done(false);
  }
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  take_opened();
  close_passages();
  for (int rank = 0; rank < static_cast<int>(lanes_.size()); ++rank) {
    drop_lane(rank);
  }
  if (is_abandoned_) {
    link_->abandon();
    keep_for_good(
        std::move(sources_),
        std::move(outgoing_),
        std::move(readings_),
        std::move(inward_),
        std::move(outward_));
  }
  readings_.clear();
  inward_.clear();
  outward_.clear();
  sources_.clear();
  outgoing_.clear();
  link_.reset();
}

void Mirror::finish() {
  for (const Source& source : sources_) {
    Pending pending;
    pending.entry = {.kind = Kind::finished};
    queue(std::move(pending), source.rank, Order::kept);
  }
  std::unique_lock lock(mutex_);
  finished_.wait_for(lock, kTimeToFinish, [this] {
    return std::ranges::all_of(sources_, [](const Source& source) {
      return source.finished || source.lost;
    });
  });
}

void Mirror::add(
    uint32_t number,
    std::shared_ptr<base::SharedMapping> mapping,
    const std::vector<int>& ranks,
    std::function<void()> arrived) {
  const std::lock_guard lock(mutex_);
  Mapping& known = mappings_[number];
  known.memory = std::move(mapping);
  known.arrived = std::move(arrived);
  for (const Source& source : sources_) {
    if (!source.lost &&
        std::find(ranks.begin(), ranks.end(), source.rank) != ranks.end()) {
      known.ranks.insert(source.rank);
      known.all_ranks.insert(source.rank);
    }
  }
}

void Mirror::remove(uint32_t number) {
  std::vector<int> ranks;
  {
    const std::lock_guard lock(mutex_);
    Mapping& known = mappings_.at(number);
    known.is_removed = true;
    known.arrived = [] {};
    // Also who has removed it waits for this one.
    ranks.assign(known.all_ranks.begin(), known.all_ranks.end());
    if (known.ranks.empty()) {
      known.memory.reset();
    }
  }
  for (const int rank : ranks) {
    Pending pending;
    pending.entry = {.kind = Kind::removed, .number = number};
    queue(std::move(pending), rank, Order::kept);
  }
}

// With the mutex: that rank needs it no more.
void Mirror::forget(uint32_t number, int rank) {
  Mapping& known = mappings_[number];
  known.ranks.erase(rank);
  if (known.is_removed && known.ranks.empty()) {
    known.memory.reset();
  }
}

void Mirror::store(
    uint32_t number,
    const std::byte* place,
    size_t bytes,
    int to) {
  if (bytes == 0) {
    return;
  }
  if (bytes > kPartBytes) {
    for (size_t begin = 0; begin < bytes; begin += kPartBytes) {
      store(number, place + begin, std::min(kPartBytes, bytes - begin), to);
    }
    return;
  }
  Pending pending;
  pending.entry = {
      .kind = bytes > kFewBytes ? Kind::many_bytes : Kind::bytes,
      .number = number,
      .bytes = bytes};
  {
    const std::lock_guard lock(mutex_);
    pending.memory = mappings_.at(number).memory;
  }
  ZERO_CHECK(pending.memory != nullptr, "mapping ", number, " is removed");
  pending.entry.offset = static_cast<uint64_t>(place - pending.memory->data());
  ZERO_CHECK(pending.entry.offset + bytes <= pending.memory->bytes());
  if (pending.entry.kind == Kind::bytes) {
    append(pending.copy, place, bytes);
  }
  queue(std::move(pending), to, Order::kept);
}

void Mirror::store_word(
    uint32_t number,
    const std::atomic<uint64_t>& word,
    int to,
    Order order) {
  const uint64_t value = word.load();
  const auto* place = reinterpret_cast<const std::byte*>(&word);
  Pending pending;
  {
    const std::lock_guard lock(mutex_);
    const auto& memory = mappings_.at(number).memory;
    ZERO_CHECK(memory != nullptr, "mapping ", number, " is removed");
    pending.entry = {
        .kind = Kind::word,
        .number = number,
        .offset = static_cast<uint64_t>(place - memory->data()),
        .bytes = sizeof(value)};
  }
  append(pending.copy, &value, sizeof(value));
  queue(std::move(pending), to, order);
}

void Mirror::read(
    uint32_t number,
    size_t offset,
    std::byte* to,
    size_t bytes,
    int rank,
    std::function<void(bool)> done) {
  Pending pending;
  pending.entry = {
      .kind = Kind::read, .number = number, .offset = offset, .bytes = bytes};
  pending.reading = {nullptr, rank, to, std::move(done)};
  queue(std::move(pending), rank, Order::overtaking);
}

void Mirror::queue(Pending pending, int to, Order order) {
  {
    std::unique_lock lock(mutex_);
    if (is_stopped_) {
      lock.unlock();
      if (pending.reading) {
        pending.reading->done(false);
      }
      return;
    }
    (order == Order::kept ? lane(to).in_order : lane(to).overtaking)
        .push_back(std::move(pending));
    has_news_ = true;
  }
  if (!is_helped()) {
    wanted_.notify_one();
  }
}

void Mirror::hurry() {
  {
    const std::lock_guard lock(mutex_);
    has_news_ = true;
  }
  if (!is_helped()) {
    wanted_.notify_one();
  }
}

} // namespace zero::comm

#include "comm/shm/collective.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/log.h"

namespace zero::comm {

Collective::Collective(
    CollectiveContext context,
    Signature signature,
    Pieces pieces)
    : Operation(signature), context_(context), pieces_(pieces) {}

bool Collective::advance() {
  if (!started_) {
    start();
  }
  if (!announced_ && !announce()) {
    return false;
  }
  bool moved = publish_next();
  moved = await_straight() || moved;
  // Nobody's data is used before it is known to be what is expected.
  if (!verified_ && !try_verify()) {
    return moved;
  }
  moved = join_next() || moved;
  moved = combine_next() || moved;
  moved = collect_next() || moved;
  moved = close() || moved;
  return move_straight() || moved;
}

bool Collective::complete() const {
  return verified_ && collected_ == pieces_.number &&
      (closed_ || !pieces_.closed) && has_moved_straight();
}

bool Collective::owes() const {
  return !announced_ || published_ < pieces_.number || !has_moved_straight() ||
      (pieces_.joined && joined_ < pieces_.number) ||
      (pieces_.combined && combined_ < pieces_.number) ||
      (pieces_.closed && collected_ < pieces_.number);
}

void Collective::start() {
  started_ = true;
  first_ = context_.next_piece;
  context_.next_piece += static_cast<uint64_t>(pieces_.number);
}

bool Collective::announce() {
  auto& self = segment().state(rank());
  const auto seq = static_cast<uint64_t>(sequence);
  // The second part of an operation was verified with the first.
  verified_ = !context_.verify || self.verified.load() > seq;
  if (!verified_) {
    // The place is free when everybody has compared what was in it.
    uint64_t least = 0;
    if (seq >= kSignatures &&
        !all_reached(&RankState::verified, seq - kSignatures + 1, least)) {
      return false;
    }
    reach().store_word(self.position); // for who waits for this rank
    auto& place = self.signatures[seq % kSignatures];
    place = signature();
    reach().store(&place, sizeof(place));
    raise(&RankState::announced, seq + 1);
  }
  announced_ = true;
  return true;
}

// True once all ranks are known to have called the same.
bool Collective::try_verify() {
  const auto seq = static_cast<uint64_t>(sequence);
  uint64_t least = 0;
  if (!all_reached(&RankState::announced, seq + 1, least)) {
    return false;
  }
  bool equal = true;
  for (int other = 0; other < size(); ++other) {
    equal = equal &&
        segment().state(other).signatures[seq % kSignatures] == signature();
  }
  if (!equal) {
    std::string calls;
    for (int other = 0; other < size(); ++other) {
      calls += c10::str(
          other == 0 ? "" : "; ",
          "rank ",
          other,
          " called ",
          describe(segment().state(other).signatures[seq % kSignatures]));
    }
    throw CommError(c10::str(
        base::rank_prefix(rank(), size()),
        "the ranks disagree on operation #",
        sequence,
        ": ",
        calls,
        ". Fix: make the same calls with the same sizes and types on every "
        "rank"));
  }
  verified_ = true;
  raise(&RankState::verified, seq + 1, Order::overtaking);
  return true;
}

bool Collective::publish_next() {
  if (published_ == pieces_.number) {
    return false;
  }
  const uint64_t piece = first_ + static_cast<uint64_t>(published_);
  const uint64_t depth = segment().depth();
  if (piece >= depth &&
      !all_reached(
          &RankState::collected, piece - depth + 1, least_collected_)) {
    return false;
  }
  publish(published_);
  ++published_;
  raise(&RankState::published, piece + 1);
  return true;
}

bool Collective::join_next() {
  if (!pieces_.joined || joined_ == published_) {
    return false;
  }
  const uint64_t piece = first_ + static_cast<uint64_t>(joined_);
  if (!all_here_reached(&RankState::published, piece + 1)) {
    return false;
  }
  join(joined_);
  ++joined_;
  raise(&RankState::joined, piece + 1);
  return true;
}

bool Collective::combine_next() {
  if (!pieces_.combined || combined_ == ready_to_combine()) {
    return false;
  }
  const uint64_t piece = first_ + static_cast<uint64_t>(combined_);
  if (!all_reached(needed_to_combine(), piece + 1, least_ready_to_combine_)) {
    return false;
  }
  combine(combined_);
  ++combined_;
  raise(&RankState::combined, piece + 1);
  return true;
}

bool Collective::collect_next() {
  if (collected_ == ready_to_collect()) {
    return false;
  }
  const uint64_t piece = first_ + static_cast<uint64_t>(collected_);
  if (!all_reached(needed_to_collect(), piece + 1, least_ready_to_collect_)) {
    return false;
  }
  collect(collected_);
  ++collected_;
  raise(&RankState::collected, piece + 1, Order::overtaking);
  return true;
}

bool Collective::close() {
  if (closed_ || !pieces_.closed || collected_ < pieces_.number) {
    return false;
  }
  const uint64_t end = first_ + static_cast<uint64_t>(pieces_.number);
  closed_ = all_reached(&RankState::collected, end, least_collected_);
  return closed_;
}

bool Collective::all_reached(Counter counter, uint64_t target, uint64_t& least)
    const {
  if (least >= target) {
    return true;
  }
  uint64_t now = UINT64_MAX;
  for (int other = 0; other < size(); ++other) {
    now = std::min(now, (segment().state(other).*counter).load());
    if (now < target) {
      return false;
    }
  }
  least = now;
  return true;
}

bool Collective::all_here_reached(Counter counter, uint64_t target) const {
  for (const int other : reach().hosts().ranks_of(reach().host())) {
    if ((segment().state(other).*counter).load() < target) {
      return false;
    }
  }
  return true;
}

void Collective::raise(Counter counter, uint64_t value, Order order) {
  auto& own = segment().state(rank()).*counter;
  own.store(value);
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) {
      segment().state(other).doorbell.ring();
    }
  }
  reach().store_word(own, order);
}

std::vector<int> Collective::behind(Counter counter, uint64_t target) const {
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other) {
    if ((segment().state(other).*counter).load() < target) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

std::vector<int> Collective::awaited() const {
  const auto seq = static_cast<uint64_t>(sequence);
  if (!announced_) {
    return seq < kSignatures
        ? std::vector<int>{}
        : behind(&RankState::verified, seq - kSignatures + 1);
  }
  if (!verified_) {
    return behind(&RankState::announced, seq + 1);
  }
  const auto piece = [this](int64_t number) {
    return first_ + static_cast<uint64_t>(number);
  };
  if (pieces_.joined && joined_ < published_) {
    auto ranks = behind(&RankState::published, piece(joined_) + 1);
    std::erase_if(ranks, [this](int other) { return !reach().is_here(other); });
    if (!ranks.empty()) {
      return ranks;
    }
  }
  if (pieces_.combined && combined_ < ready_to_combine()) {
    auto ranks = behind(needed_to_combine(), piece(combined_) + 1);
    if (!ranks.empty()) {
      return ranks;
    }
  }
  if (collected_ < ready_to_collect()) {
    return behind(needed_to_collect(), piece(collected_) + 1);
  }
  const uint64_t depth = segment().depth();
  if (published_ < pieces_.number && piece(published_) >= depth) {
    return behind(&RankState::collected, piece(published_) - depth + 1);
  }
  if (pieces_.closed) {
    return behind(&RankState::collected, piece(pieces_.number));
  }
  return awaited_straight();
}

} // namespace zero::comm

#include "reduce/exchange.h"

#include <algorithm>
#include <atomic>

#include "base/activity.h"
#include "base/alignment.h"
#include "base/error.h"
#include "base/failpoint.h"

namespace zero::reduce {

namespace {

// What follows the number of the pass in the word of a bucket.
constexpr uint64_t kNothing = 0;
constexpr uint64_t kInPlace = 1;
constexpr uint64_t kFirstSlot = 2;
constexpr int kWhatBits = 8;
constexpr int kRankBits = 8;
constexpr uint64_t kWhatMask = (1U << kWhatBits) - 1;
constexpr int kMaxSlots = 200;

} // namespace

// What one rank says of itself. Only that rank writes it, but for the bell.
struct Exchange::RankWords {
  alignas(base::kCacheLine) comm::Doorbell bell;
  // The pass it is in or has finished, the last one all of whose buckets it has
  // reduced, and the last round that it has closed.
  alignas(base::kCacheLine) std::atomic<uint64_t> pass;
  std::atomic<uint64_t> reduced_pass;
  std::atomic<uint64_t> closed;
  // How far it has come: pass << 32 | 1 + the last bucket in the usual order.
  std::atomic<uint64_t> position;
  std::atomic<uint64_t>
      finishing; // the last pass that it is in finish_pass() of

  struct alignas(32) Bucket {
    std::atomic<uint64_t> published; // pass << kWhatBits | what
    std::atomic<uint64_t> reduced; // the pass
    // For other hosts: pass << kRankBits << kWhatBits | whose place <<
    // kWhatBits | what.
    std::atomic<uint64_t> joined;
  };
  // One for each bucket follows.
  Bucket& bucket(int number) {
    return reinterpret_cast<Bucket*>(this + 1)[number];
  }
};

int64_t Exchange::control_bytes(int num_buckets) {
  return base::round_up(
      static_cast<int64_t>(sizeof(RankWords)) +
          num_buckets * static_cast<int64_t>(sizeof(RankWords::Bucket)),
      base::kCacheLine);
}

int64_t Exchange::slots_bytes(int num_slots, int64_t slot_bytes) {
  return num_slots == 0 ? 0 : (num_slots + 1) * slot_bytes;
}

Exchange::Exchange(
    Options options,
    const comm::Watch& watch,
    ExchangeHandler& handler)
    : options_(std::move(options)),
      watch_(watch),
      handler_(handler),
      slots_(options_.num_slots == 0 ? 0 : options_.num_slots + 1),
      published_(static_cast<size_t>(options_.num_buckets)),
      reduced_(static_cast<size_t>(options_.num_buckets)),
      joined_(static_cast<size_t>(options_.num_buckets)) {
  ZERO_CHECK(options_.num_slots <= kMaxSlots);
}

Exchange::RankWords& Exchange::words(int rank) const {
  return *reinterpret_cast<RankWords*>(
      options_.control[static_cast<size_t>(rank)]);
}

comm::Doorbell& Exchange::bell(std::byte* control) {
  return reinterpret_cast<RankWords*>(control)->bell;
}

void Exchange::set(
    std::atomic<uint64_t>& word,
    uint64_t value,
    comm::Order order) const {
  word = value;
  if (options_.reach) {
    options_.reach->store_word(word, order);
  }
}

bool Exchange::is_here(int rank) const {
  return !options_.reach || options_.reach->is_here(rank);
}

std::byte* Exchange::slot_data(int rank, int slot) const {
  return options_.slots[static_cast<size_t>(rank)] + slot * options_.slot_bytes;
}

void Exchange::ring_others() const {
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank && is_here(rank)) {
      words(rank).bell.ring();
    }
  }
}

bool Exchange::has_published(int rank, int bucket) const {
  return words(rank).bucket(bucket).published.load() >> kWhatBits >= pass_;
}

int Exchange::position(int rank) const {
  const uint64_t word = words(rank).position.load();
  return word >> 32 == pass_ ? static_cast<int>(word & UINT32_MAX) : 0;
}

void Exchange::wait(const char* what, const std::function<bool()>& done) {
  const base::Span span(base::Activity::wait);
  watch_.wait(
      words(options_.rank).bell,
      [&] {
        progress();
        return done();
      },
      {.what = what,
       .sequence = static_cast<int64_t>(pass_),
       .awaited = [this] { return ranks_behind(); }});
}

std::vector<int> Exchange::ranks_behind() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < options_.size; ++rank) {
    const auto& peer = words(rank);
    if (rank != options_.rank &&
        (peer.reduced_pass < pass_ || peer.closed < round_)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

void Exchange::begin_pass() {
  ZERO_CHECK(!in_pass_);
  in_pass_ = true;
  ++pass_;
  std::fill(published_.begin(), published_.end(), 0);
  std::fill(reduced_.begin(), reduced_.end(), 0);
  num_reduced_ = 0;
  first_unreduced_ = 0;
  std::fill(joined_.begin(), joined_.end(), 0);
  set(words(options_.rank).pass, pass_);
  ring_others();
}

void Exchange::announce(int bucket, uint64_t what) {
  base::failpoint("engine.moment");
  auto& own = words(options_.rank);
  set(own.bucket(bucket).published, pass_ << kWhatBits | what);
  published_[static_cast<size_t>(bucket)] = 1;
  come_to(bucket);
}

// Also when it is kept: whoever waits for it must not take this rank for one
// that is still behind it.
void Exchange::come_to(int bucket) {
  const int reached = std::max(position(options_.rank), bucket + 1);
  set(words(options_.rank).position,
      pass_ << 32 | static_cast<uint64_t>(reached));
  ring_others();
}

void Exchange::fill_and_announce(int bucket, int slot) {
  handler_.fill(bucket, slot_data(options_.rank, slot));
  slots_[static_cast<size_t>(slot)] = {bucket, pass_};
  announce(bucket, kFirstSlot + static_cast<uint64_t>(slot));
}

bool Exchange::is_free(const Slot& slot) const {
  for (int rank = 0; slot.bucket >= 0 && rank < options_.size; ++rank) {
    if (words(rank).bucket(slot.bucket).reduced < slot.pass) {
      return false;
    }
  }
  return true;
}

// Of those for any time; -1 if there is none.
int Exchange::free_slot() const {
  for (int slot = 0; slot < options_.num_slots; ++slot) {
    if (is_free(slots_[static_cast<size_t>(slot)])) {
      return slot;
    }
  }
  return -1;
}

// Whether some slot lacks only ranks that will come to its bucket in time.
bool Exchange::worth_waiting() const {
  for (int slot = 0; slot < options_.num_slots; ++slot) {
    const int bucket = slots_[static_cast<size_t>(slot)].bucket;
    bool sure = true;
    for (int rank = 0; rank < options_.size; ++rank) {
      const bool is_behind =
          position(rank) <= bucket && words(rank).finishing < pass_;
      sure = sure && (has_published(rank, bucket) || is_behind);
    }
    if (sure) {
      return true;
    }
  }
  return false;
}

bool Exchange::publish(int bucket) {
  ZERO_CHECK(in_pass_ && !published(bucket));
  if (options_.num_slots == 0) {
    announce(bucket, kInPlace);
    return true;
  }
  int slot = free_slot();
  if (slot < 0) {
    wait("backward", [&] {
      slot = free_slot();
      return slot >= 0 || !worth_waiting();
    });
  }
  if (slot < 0) {
    come_to(bucket);
    return false;
  }
  fill_and_announce(bucket, slot);
  return true;
}

void Exchange::progress() {
  if (!in_pass_) {
    return;
  }
  for (int bucket = first_unreduced_; bucket < options_.num_buckets; ++bucket) {
    auto& reduced = reduced_[static_cast<size_t>(bucket)];
    if (reduced != 0) {
      first_unreduced_ += bucket == first_unreduced_ ? 1 : 0;
      continue;
    }
    if (!published(bucket) || !all_here_have_published(bucket)) {
      continue;
    }
    if (options_.reach && joined_[static_cast<size_t>(bucket)] == 0) {
      join(bucket);
    }
    if (!all_hosts_have_joined(bucket)) {
      continue;
    }
    auto contributions = contributions_here(bucket);
    add_other_hosts(bucket, contributions);
    handler_.reduce(bucket, contributions);
    base::failpoint("engine.moment");
    reduced = 1;
    ++num_reduced_;
    auto& own = words(options_.rank);
    set(own.bucket(bucket).reduced, pass_, comm::Order::overtaking);
    if (num_reduced_ == options_.num_buckets) {
      set(own.reduced_pass, pass_);
    }
    ring_others();
  }
}

Contribution Exchange::contribution(int rank, uint64_t what) const {
  if (what == kNothing) {
    return {};
  }
  if (what == kInPlace) {
    return {Contribution::Kind::in_place, nullptr};
  }
  return {
      Contribution::Kind::slot,
      slot_data(rank, static_cast<int>(what - kFirstSlot))};
}

bool Exchange::all_here_have_published(int bucket) const {
  for (int rank = 0; rank < options_.size; ++rank) {
    if (is_here(rank) && !has_published(rank, bucket)) {
      return false;
    }
  }
  return true;
}

std::vector<Contribution> Exchange::contributions_here(int bucket) const {
  std::vector<Contribution> all(static_cast<size_t>(options_.size));
  for (int rank = 0; rank < options_.size; ++rank) {
    if (is_here(rank)) {
      const uint64_t word = words(rank).bucket(bucket).published;
      all[static_cast<size_t>(rank)] = contribution(rank, word & kWhatMask);
    }
  }
  return all;
}

// What this host gives to the others.
void Exchange::join(int bucket) {
  const auto contributions = contributions_here(bucket);
  uint64_t said = pass_ << kRankBits << kWhatBits;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (contributions[static_cast<size_t>(rank)].kind !=
        Contribution::Kind::nothing) {
      handler_.join(bucket, contributions, rank);
      said |= static_cast<uint64_t>(rank) << kWhatBits |
          (words(rank).bucket(bucket).published & kWhatMask);
      break;
    }
  }
  set(words(options_.rank).bucket(bucket).joined, said);
  joined_[static_cast<size_t>(bucket)] = 1;
}

// For this rank's slice.
bool Exchange::all_hosts_have_joined(int bucket) const {
  if (!options_.reach) {
    return true;
  }
  const auto& hosts = options_.reach->hosts();
  for (int host = 0; host < hosts.num_hosts(); ++host) {
    const int joiner = hosts.counterpart(options_.rank, host);
    if (host != options_.reach->host() &&
        words(joiner).bucket(bucket).joined >> kRankBits >> kWhatBits < pass_) {
      return false;
    }
  }
  return true;
}

void Exchange::add_other_hosts(int bucket, std::vector<Contribution>& all)
    const {
  if (!options_.reach) {
    return;
  }
  const auto& hosts = options_.reach->hosts();
  for (int host = 0; host < hosts.num_hosts(); ++host) {
    if (host != options_.reach->host()) {
      const int joiner = hosts.counterpart(options_.rank, host);
      const uint64_t word = words(joiner).bucket(bucket).joined;
      const int first = static_cast<int>(
          word >> kWhatBits & ((uint64_t{1} << kRankBits) - 1));
      const uint64_t what = word & kWhatMask;
      if (what != kNothing) { // if it is, no rank of that host is named
        all[static_cast<size_t>(first)] = contribution(first, what);
      }
    }
  }
}

void Exchange::finish_pass(const std::function<bool(int)>& has) {
  ZERO_CHECK(in_pass_);
  auto& own = words(options_.rank);
  set(own.finishing, pass_);
  ring_others();
  if (options_.num_buckets == 0) {
    set(own.reduced_pass, pass_);
    ring_others();
  }
  for (int bucket = 0; bucket < options_.num_buckets; ++bucket) {
    if (published(bucket)) {
      continue;
    }
    if (!has(bucket)) {
      announce(bucket, kNothing);
    } else if (options_.num_slots == 0) {
      announce(bucket, kInPlace);
    } else {
      int slot = -1;
      wait("backward", [&] {
        slot = free_slot();
        if (slot < 0 && is_free(slots_.back())) {
          slot = options_.num_slots;
        }
        return slot >= 0;
      });
      fill_and_announce(bucket, slot);
    }
  }
  wait("backward", [&] {
    for (int rank = 0; rank < options_.size; ++rank) {
      if (words(rank).reduced_pass < pass_) {
        return false;
      }
    }
    return true;
  });
  in_pass_ = false;
}

void Exchange::close_round() {
  ZERO_CHECK(!in_pass_);
  ++round_;
  set(words(options_.rank).closed, round_);
  ring_others();
  for (bool open = true; open;) {
    bool another_pass = false;
    wait("step", [&] {
      bool all_closed = true;
      another_pass = false;
      for (int rank = 0; rank < options_.size; ++rank) {
        // In this order: a rank that has closed begins no pass any more.
        all_closed = all_closed && words(rank).closed >= round_;
        another_pass = another_pass || words(rank).pass > pass_;
      }
      return all_closed || another_pass;
    });
    open = another_pass;
    if (another_pass) {
      begin_pass();
      finish_pass([](int) { return false; });
    }
  }
}

} // namespace zero::reduce

#include "gather/residents.h"

#include "base/error.h"
#include "base/futex.h"

namespace zero::gather {

namespace {

// A unit's word, from its highest bits on.
struct Word {
  Residents::State state = Residents::State::absent; // 2 bits
  uint8_t round = 0; // of its values
  uint32_t rank = 0; // 10 bits: who brings or drops it
  uint32_t pins = 0; // 12 bits
};

constexpr uint32_t kMaxPins = (1U << 12U) - 1;
constexpr uint32_t kMaxRank = (1U << 10U) - 1;

Word unpack(uint32_t bits) {
  return {
      .state = static_cast<Residents::State>(bits >> 30U),
      .round = static_cast<uint8_t>(bits >> 22U),
      .rank = bits >> 12U & kMaxRank,
      .pins = bits & kMaxPins};
}

uint32_t pack(const Word& word) {
  return static_cast<uint32_t>(word.state) << 30U |
      static_cast<uint32_t>(word.round) << 22U | word.rank << 12U | word.pins;
}

bool is_moving(const Word& word) {
  return word.state == Residents::State::arriving ||
      word.state == Residents::State::leaving;
}

// Replaces the word by what `change` makes of it, unless that returns false.
template <class Change>
bool replace(std::atomic<uint32_t>& atomic, Change change) {
  uint32_t bits = atomic.load(std::memory_order_acquire);
  for (;;) {
    Word word = unpack(bits);
    if (!change(word)) {
      return false;
    }
    if (atomic.compare_exchange_weak(
            bits, pack(word), std::memory_order_acq_rel)) {
      return true;
    }
  }
}

} // namespace

size_t Residents::bytes_for(int num_units, int num_ranks) {
  return sizeof(Header) +
      static_cast<size_t>(num_ranks) * sizeof(std::atomic<int64_t>) +
      static_cast<size_t>(num_units) * sizeof(std::atomic<uint32_t>);
}

Residents::Residents(std::byte* memory, int num_ranks, int local_rank)
    : local_rank_(static_cast<uint32_t>(local_rank)),
      header_(reinterpret_cast<Header*>(memory)),
      positions_(
          reinterpret_cast<std::atomic<int64_t>*>(memory + sizeof(Header))),
      words_(reinterpret_cast<std::atomic<uint32_t>*>(positions_ + num_ranks)) {
  ZERO_CHECK(num_ranks <= static_cast<int>(kMaxRank) + 1);
}

Residents::State Residents::state(int unit) const {
  return unpack(word(unit).load(std::memory_order_acquire)).state;
}

bool Residents::is_pinned(int unit) const {
  return unpack(word(unit).load(std::memory_order_acquire)).pins > 0;
}

void Residents::pin(int unit) {
  replace(word(unit), [](Word& word) {
    ZERO_CHECK(word.pins < kMaxPins);
    ++word.pins;
    return true;
  });
}

void Residents::unpin(int unit) {
  replace(word(unit), [](Word& word) {
    --word.pins;
    return true;
  });
}

Residents::Claim Residents::claim(int unit, uint8_t round) {
  Claim result = Claim::present;
  replace(word(unit), [&](Word& word) {
    switch (word.state) {
      case State::arriving:
      case State::leaving:
        result = Claim::arriving;
        return false;
      case State::present:
        if (word.round == round) {
          result = Claim::present;
          return false;
        }
        result = Claim::stale;
        break;
      case State::absent:
        result = Claim::absent;
        break;
    }
    word.state = State::arriving;
    word.round = round;
    word.rank = local_rank_;
    return true;
  });
  return result;
}

void Residents::settle(int unit, State state) {
  replace(word(unit), [state](Word& word) {
    word.state = state;
    return true;
  });
  base::futex_wake_all(word(unit));
}

bool Residents::begin_drop(int unit) {
  return replace(word(unit), [this](Word& word) {
    if (word.state != State::present || word.pins > 0) {
      return false;
    }
    word.state = State::leaving;
    word.rank = local_rank_;
    return true;
  });
}

int Residents::wait(int unit) const {
  constexpr std::chrono::milliseconds kMoment(50);
  const uint32_t bits = word(unit).load(std::memory_order_acquire);
  if (is_moving(unpack(bits))) {
    base::futex_wait(word(unit), bits, kMoment);
  }
  const Word now = unpack(word(unit).load(std::memory_order_acquire));
  return is_moving(now) ? static_cast<int>(now.rank) : -1;
}

int64_t Residents::bytes() const {
  return header_->bytes.load(std::memory_order_relaxed);
}

int64_t Residents::peak_bytes() const {
  return header_->peak_bytes.load(std::memory_order_relaxed);
}

void Residents::add_bytes(int64_t bytes) {
  raise_peak(header_->bytes.fetch_add(bytes) + bytes);
}

void Residents::subtract_bytes(int64_t bytes) {
  header_->bytes.fetch_sub(bytes);
}

bool Residents::add_bytes_within(int64_t budget, int64_t bytes) {
  int64_t before = header_->bytes.load();
  do {
    if (before + bytes > budget) {
      return false;
    }
  } while (!header_->bytes.compare_exchange_weak(before, before + bytes));
  raise_peak(before + bytes);
  return true;
}

void Residents::raise_peak(int64_t bytes) {
  int64_t peak = header_->peak_bytes.load();
  while (peak < bytes &&
         !header_->peak_bytes.compare_exchange_weak(peak, bytes)) {
  }
}

void Residents::set_position(int64_t position) {
  positions_[local_rank_].store(position, std::memory_order_relaxed);
}

int64_t Residents::position(int local_rank) const {
  return positions_[local_rank].load(std::memory_order_relaxed);
}

} // namespace zero::gather

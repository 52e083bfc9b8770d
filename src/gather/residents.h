// Defines Residents: which units the ranks of a host have gathered, and who
// uses them. It lies in memory that all of them share.
//
// Every change is one atomic operation, and none waits for another rank but
// wait(): so a rank that is killed in the middle of anything leaves nothing
// locked. What it was bringing stays on its way for ever, and who waits for it
// learns whom it waits for.
//
//   residents.pin(unit);  // it cannot be dropped any more
//   switch (residents.claim(unit, round)) {
//     case Residents::Claim::absent:
//       ...  residents.arrived(unit);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace zero::gather {

class Residents {
 public:
  static size_t bytes_for(int num_units, int num_ranks);

  // Memory of that size, which is zeros at first.
  Residents(std::byte* memory, int num_ranks, int local_rank);

  enum class State {
    absent,
    arriving, // somebody brings it
    present,
    leaving, // somebody drops it
  };
  State state(int unit) const;
  bool is_pinned(int unit) const;

  void pin(int unit);
  void unpin(int unit);

  // For somebody who needs it as it is in this round, and has pinned it unless
  // it may be dropped again at once.
  enum class Claim {
    present,
    arriving, // another brings it, or is still dropping it: wait()
    absent, // this one has to bring it
    stale, // likewise; it has memory, from a round before
  };
  Claim claim(int unit, uint8_t round);
  void arrived(int unit) {
    settle(unit, State::present);
  }
  void failed(int unit) {
    settle(unit, State::absent);
  }

  // False if somebody uses it, or it is not here.
  bool begin_drop(int unit);
  void end_drop(int unit) {
    settle(unit, State::absent);
  }

  // Sleeps a moment, or until it has been brought or dropped. Returns the local
  // rank that still does so, or -1.
  int wait(int unit) const;

  // Of units that are present or arriving.
  int64_t bytes() const;
  int64_t peak_bytes() const;
  void add_bytes(int64_t bytes);
  void subtract_bytes(int64_t bytes);
  bool add_bytes_within(int64_t budget, int64_t bytes);

  // How far each rank of the host is in the order of use.
  void set_position(int64_t position);
  int64_t position(int local_rank) const;

 private:
  struct Header {
    std::atomic<int64_t> bytes;
    std::atomic<int64_t> peak_bytes;
  };
  std::atomic<uint32_t>& word(int unit) const {
    return words_[unit];
  }
  void settle(int unit, State state);
  void raise_peak(int64_t bytes);

  uint32_t local_rank_;
  Header* header_;
  std::atomic<int64_t>* positions_; // by rank of the host
  std::atomic<uint32_t>* words_; // by unit
};

} // namespace zero::gather

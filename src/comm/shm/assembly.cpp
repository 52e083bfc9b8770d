#include "comm/shm/assembly.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "comm/shm/await_ranks.h"
#include "comm/shm/gone_shortly.h"

namespace zero::comm {

namespace {

enum Arrival : uint32_t { kNotHere, kArrived, kLetsIn };
enum Attachment : uint32_t { kNotYet, kAttached, kGaveUp, kFailed };

constexpr std::chrono::milliseconds kSlice(20);

} // namespace

struct Assembly::Area {
  std::atomic<uint32_t> bell; // changes whenever anything else does

  // A word for each rank follows; one for each guest, with its id + 1; and the
  // rounds.
  std::atomic<uint32_t>& arrived(int place) {
    return reinterpret_cast<std::atomic<uint32_t>*>(this + 1)[place];
  }
};

struct Assembly::Round {
  enum Proposal : uint32_t { kNone, kReady, kImpossible };

  std::atomic<uint32_t> claimer; // its rank + 1
  std::atomic<Proposal> proposal;
  std::atomic<pid_t> pid;
  std::atomic<int> fd;

  struct Member {
    std::atomic<uint32_t> listed;
    std::atomic<uint32_t> attached;
  };

  // One for each rank follows.
  Member& member(int rank) {
    return reinterpret_cast<Member*>(this + 1)[rank];
  }
  std::atomic<uint32_t>& listed(int rank) {
    return member(rank).listed;
  }
  std::atomic<uint32_t>& attached(int rank) {
    return member(rank).attached;
  }
  static size_t bytes_for(int num_ranks) {
    return sizeof(Round) + sizeof(Member) * static_cast<size_t>(num_ranks);
  }
};

size_t Assembly::bytes_for(int num_ranks, int num_guests) {
  const int num_places = num_ranks + num_guests;
  const auto n = static_cast<size_t>(num_places);
  return sizeof(Area) + n * sizeof(uint32_t) + n * Round::bytes_for(num_places);
}

std::optional<int> Assembly::take_place(
    std::byte* area,
    int num_ranks,
    int num_guests,
    int id) {
  const auto self = static_cast<uint32_t>(id) + 1;
  for (int place = num_ranks; place < num_ranks + num_guests; ++place) {
    uint32_t taken = 0;
    auto& word = reinterpret_cast<Area*>(area)->arrived(place);
    if (word.compare_exchange_strong(taken, self) || taken == self) {
      return place;
    }
  }
  return std::nullopt;
}

int Assembly::guest_at(std::byte* area, int num_ranks, int place) {
  ZERO_CHECK(place >= num_ranks);
  return static_cast<int>(reinterpret_cast<Area*>(area)->arrived(place)) - 1;
}

Assembly::Assembly(std::byte* area, Participant participant)
    : area_(area), participant_(std::move(participant)) {}

Assembly::Area& Assembly::area() const {
  return *reinterpret_cast<Area*>(area_);
}

int Assembly::first_arrived(std::byte* area, int num_ranks) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (reinterpret_cast<Area*>(area)->arrived(rank) != 0) {
      return rank;
    }
  }
  return -1;
}

Assembly::Round& Assembly::round(int number) const {
  const auto n = static_cast<size_t>(num_places());
  const size_t offset = sizeof(Area) + n * sizeof(uint32_t) +
      static_cast<size_t>(number) * Round::bytes_for(num_places());
  return *reinterpret_cast<Round*>(area_ + offset);
}

void Assembly::ring() {
  auto& bell = area().bell;
  bell.fetch_add(1);
  base::futex_wake_all(bell);
}

// Waits for `condition`; `missing` names the rank that keeps it from being so.
template <class Condition>
void Assembly::wait_until(
    Condition condition,
    const std::function<int()>& missing) {
  const auto& bell = area().bell;
  uint32_t before = 0;
  await_ranks(
      {.rank = participant_.rank,
       .size = participant_.size,
       .purpose = participant_.purpose,
       .timeout_seconds = participant_.timeout_seconds,
       .missing = missing},
      [&] {
        before = bell;
        return condition();
      },
      [&] { base::futex_wait(bell, before, kSlice); });
}

Assembly::Outcome Assembly::run() {
  area().arrived(participant_.rank) = participant_.lets_in ? kLetsIn : kArrived;
  ring();
  wait_for_arrivals();
  for (int number = 0; number < num_places(); ++number) {
    auto& current = round(number);
    wait_for_proposal(current);
    Outcome outcome;
    if (join(current, outcome)) {
      return outcome;
    }
  }
  throw CommError(c10::str(
      base::rank_prefix(participant_.rank, participant_.size),
      participant_.purpose,
      ": no round of the assembly succeeded"));
}

void Assembly::wait_for_arrivals() {
  const auto missing = [this] {
    for (int rank = 0; rank < participant_.size; ++rank) {
      if (area().arrived(rank) == 0 && !participant_.gone(rank)) {
        return rank;
      }
    }
    return -1;
  };
  wait_until([&] { return missing() < 0; }, missing);
}

// Step 1, unless another rank has claimed the round.
void Assembly::propose(Round& round) {
  uint32_t nobody = 0;
  const auto self = static_cast<uint32_t>(participant_.rank) + 1;
  if (!round.claimer.compare_exchange_strong(nobody, self)) {
    return;
  }
  std::vector<int> members;
  bool lets_in = true;
  for (int place = 0; place < num_places(); ++place) {
    const bool is_rank = place < participant_.size;
    if ((is_rank || lets_in) && is_there(place)) {
      members.push_back(place);
      round.listed(place) = 1;
      lets_in = lets_in && (!is_rank || area().arrived(place) == kLetsIn);
    }
  }
  try {
    own_segments_.push_back(participant_.build(members));
    const auto address = own_segments_.back()->address();
    round.pid = address.pid;
    round.fd = address.fd;
    round.proposal = Round::kReady;
  } catch (...) {
    round.proposal = Round::kImpossible;
    ring();
    throw;
  }
  ring();
}

bool Assembly::is_there(int place) const {
  return area().arrived(place) != kNotHere && !participant_.gone(place);
}

void Assembly::wait_for_proposal(Round& round) {
  const auto lowest_living = [this] {
    int rank = 0;
    while (!is_there(rank)) {
      ++rank; // ends at this rank at the latest
    }
    return rank;
  };
  const auto claimer = [&round] {
    return static_cast<int>(round.claimer.load()) - 1;
  };
  const auto decided = [&] {
    if (claimer() < 0 && lowest_living() == participant_.rank) {
      propose(round);
    }
    // Looked at in this order: who is gone will not propose any more.
    const bool claimer_gone = claimer() >= 0 && participant_.gone(claimer());
    return round.proposal != Round::kNone || claimer_gone;
  };
  wait_until(
      decided, [&] { return claimer() >= 0 ? claimer() : lowest_living(); });
}

// Steps 2 and 3: false when the round has failed.
bool Assembly::join(Round& round, Outcome& outcome) {
  if (round.proposal == Round::kNone) {
    return false;
  }
  if (round.proposal == Round::kImpossible) {
    participant_.failed_by_another();
    throw IoError(c10::str(
        base::rank_prefix(participant_.rank, participant_.size),
        participant_.purpose,
        ": rank ",
        static_cast<int>(round.claimer.load()) - 1,
        " could not make the shared memory; its own message says why"));
  }
  if (!map(round, outcome)) {
    return false;
  }
  bool failed = false;
  wait_until(
      [&] {
        failed = has_failed(round, outcome);
        return failed || missing_of(round, outcome) < 0;
      },
      [&] { return missing_of(round, outcome); });
  return !failed;
}

// Step 2: false if the claimer is gone, and the segment with it.
bool Assembly::map(Round& round, Outcome& outcome) {
  const int claimer = static_cast<int>(round.claimer.load()) - 1;
  for (int place = 0; place < num_places(); ++place) {
    if (round.listed(place) != 0) {
      outcome.members.push_back(place);
    }
  }
  try {
    outcome.segment = claimer == participant_.rank
        ? own_segments_.back()
        : base::SharedMapping::open({round.pid, round.fd});
    round.attached(participant_.rank) = kAttached;
  } catch (const IoError&) {
    const bool claimer_gone =
        gone_shortly([&] { return participant_.gone(claimer); });
    round.attached(participant_.rank) = claimer_gone ? kGaveUp : kFailed;
    ring();
    if (!claimer_gone) {
      throw;
    }
    return false;
  }
  ring();
  return true;
}

int Assembly::missing_of(Round& round, const Outcome& outcome) {
  for (const int place : outcome.members) {
    if (round.attached(place) == kNotYet) {
      return place;
    }
  }
  return -1;
}

bool Assembly::has_failed(Round& round, const Outcome& outcome) {
  bool failed = false;
  for (const int place : outcome.members) {
    // Gone first, then attached: see Note [Assembly].
    const bool gone = participant_.gone(place);
    const auto attached = round.attached(place).load();
    // A guest that has no memory for it is one less.
    if (attached == kFailed && place < participant_.size) {
      participant_.failed_by_another();
      throw IoError(c10::str(
          base::rank_prefix(participant_.rank, participant_.size),
          participant_.purpose,
          ": rank ",
          place,
          " could not map the shared memory; its own message says why"));
    }
    failed = failed || attached == kGaveUp || attached == kFailed ||
        (gone && attached == kNotYet);
  }
  return failed;
}

std::optional<Assembly::Outcome> Assembly::look() {
  while (looks_at_ < num_places()) {
    auto& current = round(looks_at_);
    if (!mapped_) {
      const int claimer = static_cast<int>(current.claimer.load()) - 1;
      // Looked at in this order: who is gone will not propose any more.
      const bool is_claimer_gone = claimer >= 0 && participant_.gone(claimer);
      if (current.proposal == Round::kNone && !is_claimer_gone) {
        return std::nullopt;
      }
      Outcome outcome;
      const bool is_listed = current.proposal == Round::kReady &&
          current.listed(participant_.rank) != 0;
      if (is_listed && map(current, outcome)) {
        mapped_ = std::move(outcome);
      }
    }
    if (mapped_ && !has_failed(current, *mapped_)) {
      return missing_of(current, *mapped_) < 0 ? std::move(mapped_)
                                               : std::nullopt;
    }
    mapped_.reset();
    ++looks_at_;
  }
  return std::nullopt;
}

} // namespace zero::comm

#include "comm/shm/agreement.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/shm/await_ranks.h"
#include "comm/shm/gone_shortly.h"

namespace zero::comm {

namespace {

// It is about who is lost, which takes longer to find out.
constexpr std::chrono::milliseconds kPause(1);

// A statement in one word: coordinator + 1, attempt, phase.
constexpr int kAttemptBits = 32;
constexpr int kPhaseBits = 8;

// Proposals have numbers of their own: no two attempts have the same.
constexpr uint32_t kMostAttempts = 256;

constexpr int kBits = 64;

} // namespace

Agreement::Agreement(Participant participant)
    : participant_(std::move(participant)) {}

bool Agreement::has_come(const Segment& segment, int other, int rank) {
  return segment.pair(other, rank).statement.word != 0;
}

int Agreement::lowest_living() const {
  int rank = 0;
  while (rank != participant_.rank && participant_.gone(rank)) {
    ++rank;
  }
  return rank;
}

void Agreement::say(const Said& said) const {
  for (int to = 0; to < size(); ++to) {
    auto& own = participant_.segment.pair(participant_.rank, to).statement;
    const auto set = [&](std::atomic<uint64_t>& word, uint64_t value) {
      word = value;
      participant_.reach.store_word_for(word, to);
    };
    // While the rest changes it says nothing.
    constexpr uint64_t kChanging = 1;
    set(own.word, kChanging << kPhaseBits);
    set(own.number, said.number);
    for (size_t i = 0; i < own.members.size(); ++i) {
      uint64_t bits = 0;
      for (const int rank : said.members) {
        bits |= static_cast<size_t>(rank) / kBits == i
            ? uint64_t{1} << (rank % kBits)
            : 0;
      }
      set(own.members[i], bits);
    }
    set(own.word,
        static_cast<uint64_t>(said.coordinator + 1)
                << (kAttemptBits + kPhaseBits) |
            said.attempt << kPhaseBits | static_cast<uint64_t>(said.phase));
  }
}

Agreement::Said Agreement::said_by(int rank) const {
  const auto& statement =
      participant_.segment.pair(rank, participant_.rank).statement;
  for (;;) {
    const uint64_t word = statement.word;
    Said said{
        .phase = static_cast<Phase>(word & ((1U << kPhaseBits) - 1)),
        .coordinator =
            static_cast<int>(word >> (kAttemptBits + kPhaseBits)) - 1,
        .attempt = word >> kPhaseBits & UINT32_MAX,
        .number = static_cast<uint32_t>(statement.number),
        .members = {}};
    for (int member = 0; member < size(); ++member) {
      const uint64_t bits =
          statement.members[static_cast<size_t>(member / kBits)];
      if ((bits >> (member % kBits) & 1) != 0) {
        said.members.push_back(member);
      }
    }
    if (statement.word == word) {
      return said;
    }
  }
}

template <class Condition>
void Agreement::wait_until(
    Condition condition,
    const std::function<int()>& missing) {
  await_ranks(
      {.rank = participant_.rank,
       .size = size(),
       .purpose = "shrink",
       .timeout_seconds = participant_.timeout_seconds,
       .missing = missing},
      condition,
      [] { std::this_thread::sleep_for(kPause); });
}

Agreement::Outcome Agreement::run() {
  for (;;) {
    const int coordinator = lowest_living();
    if (coordinator == participant_.rank) {
      return lead();
    }
    if (auto outcome = follow(coordinator)) {
      return std::move(*outcome);
    }
  }
}

Agreement::Outcome Agreement::lead() {
  const int self = participant_.rank;
  for (uint64_t attempt = 1; attempt < kMostAttempts; ++attempt) {
    say(
        {.phase = Phase::waits,
         .coordinator = self,
         .attempt = attempt - 1,
         .number = participant_.next_number});
    const auto missing = [&] {
      for (int rank = 0; rank < size(); ++rank) {
        const Said said = said_by(rank);
        const bool has_come =
            said.coordinator == self || said.phase == Phase::settled;
        if (!has_come && !participant_.gone(rank)) {
          return rank;
        }
      }
      return -1;
    };
    wait_until([&] { return missing() < 0; }, missing);
    const auto settled = settled_by_a_living_rank();
    Said proposal = settled ? *settled : propose(attempt);
    proposal.phase = Phase::proposes;
    proposal.coordinator = self;
    proposal.attempt = attempt;
    say(proposal);
    if (prepare(proposal) && all_accept(proposal, settled.has_value())) {
      return settle(std::move(proposal));
    }
  }
  throw CommError(c10::str(
      base::rank_prefix(self, size()),
      "shrink: ranks were lost again and again. Fix: start the job again"));
}

std::optional<Agreement::Said> Agreement::settled_by_a_living_rank() const {
  for (int rank = 0; rank < size(); ++rank) {
    const Said said = said_by(rank);
    if (said.phase == Phase::settled && !participant_.gone(rank)) {
      return said;
    }
  }
  return std::nullopt;
}

Agreement::Said Agreement::propose(uint64_t attempt) const {
  Said proposal;
  uint32_t number = participant_.next_number;
  for (int rank = 0; rank < size(); ++rank) {
    if (!participant_.gone(rank)) {
      proposal.members.push_back(rank);
      number = std::max(number, said_by(rank).number);
    }
  }
  check_may_go_on(proposal.members);
  proposal.number = number +
      static_cast<uint32_t>(participant_.rank) * kMostAttempts +
      static_cast<uint32_t>(attempt);
  return proposal;
}

void Agreement::check_may_go_on(const std::vector<int>& members) const {
  std::vector<int> out_of_reach;
  for (int rank = 0; rank < size(); ++rank) {
    if (participant_.gone(rank) && participant_.out_of_reach(rank)) {
      out_of_reach.push_back(rank);
    }
  }
  const bool have_the_lowest =
      out_of_reach.empty() || members.front() < out_of_reach.front();
  if (members.size() > out_of_reach.size() ||
      (members.size() == out_of_reach.size() && have_the_lowest)) {
    return;
  }
  throw CommError(c10::str(
      base::rank_prefix(participant_.rank, size()),
      "shrink: ",
      out_of_reach.size(),
      " ranks are out of reach and only ",
      members.size(),
      " are not. The others may be going on without this one, so it does not. "
      "Fix: see what is between the hosts"));
}

// Every member does, or has gone after it was settled. False if one is gone
// before.
bool Agreement::all_accept(const Said& proposal, bool is_settled) {
  bool is_one_gone = false;
  const auto missing = [&] {
    for (const int rank : proposal.members) {
      const bool is_gone = participant_.gone(rank); // looked at first
      const Said said = said_by(rank);
      const bool accepts = rank == participant_.rank ||
          (said.number == proposal.number &&
           (said.phase == Phase::accepts || said.phase == Phase::settled));
      is_one_gone = is_one_gone || (is_gone && !is_settled);
      if (!accepts && !is_gone) {
        return rank;
      }
    }
    return -1;
  };
  wait_until([&] { return missing() < 0 || is_one_gone; }, missing);
  return !is_one_gone;
}

std::optional<Agreement::Outcome> Agreement::follow(int coordinator) {
  Said own{
      .phase = Phase::waits,
      .coordinator = coordinator,
      .number = participant_.next_number};
  say(own);
  for (;;) {
    Said said;
    bool is_gone = false;
    wait_until(
        [&] {
          is_gone = participant_.gone(coordinator); // looked at first
          said = said_by(coordinator);
          const bool is_news = said.coordinator == coordinator &&
              (said.phase == Phase::settled ||
               (said.phase == Phase::proposes && said.attempt > own.attempt));
          return is_news || is_gone;
        },
        [&] { return coordinator; });
    const bool is_settled = said.phase == Phase::settled;
    if (!is_settled && is_gone) {
      return std::nullopt;
    }
    const bool is_member = std::ranges::find(said.members, participant_.rank) !=
        said.members.end();
    if (!is_member || (is_settled && !segments_.contains(said.number))) {
      throw CommError(c10::str(
          base::rank_prefix(participant_.rank, size()),
          "shrink: the other ranks took this one for lost, and go on without "
          "it. Fix: see what is between the hosts"));
    }
    if (is_settled) {
      return settle(std::move(said));
    }
    own = said;
    own.phase = prepare(said) ? Phase::accepts : Phase::waits;
    say(own);
  }
}

// Gets this rank the segment of its host. False if who makes it is gone.
bool Agreement::prepare(const Said& proposal) {
  if (segments_.contains(proposal.number)) {
    return true;
  }
  const auto leader = *std::ranges::find_if(proposal.members, [this](int rank) {
    return participant_.reach.is_here(rank);
  });
  auto& place = participant_.segment.pair(leader, leader).statement;
  if (leader == participant_.rank) {
    auto segment = participant_.build(proposal.members, proposal.number);
    const auto address = segment->address();
    place.process = static_cast<uint64_t>(address.pid);
    place.descriptor = static_cast<uint64_t>(address.fd);
    place.built = proposal.number;
    segments_[proposal.number] = std::move(segment);
    return true;
  }
  bool is_gone = false;
  wait_until(
      [&] {
        is_gone = participant_.gone(leader);
        return is_gone || place.built == proposal.number;
      },
      [leader] { return leader; });
  if (is_gone) {
    return false;
  }
  try {
    segments_[proposal.number] = base::SharedMapping::open(
        {static_cast<pid_t>(place.process.load()),
         static_cast<int>(place.descriptor.load())});
  } catch (const IoError&) {
    segments_.erase(proposal.number);
    if (gone_shortly([&] { return participant_.gone(leader); })) {
      return false;
    }
    throw;
  }
  return true;
}

Agreement::Outcome Agreement::settle(Said proposal) {
  proposal.phase = Phase::settled;
  say(proposal);
  return {
      std::move(proposal.members),
      proposal.number,
      segments_.at(proposal.number)};
}

} // namespace zero::comm

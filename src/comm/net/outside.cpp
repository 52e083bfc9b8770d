#include "comm/net/outside.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

namespace zero::comm {

Outside::Outside(
    std::unique_ptr<Link> link,
    const Hosts& hosts,
    const Roster& roster,
    std::shared_ptr<base::SharedMapping> roster_memory)
    : hosts_(hosts), host_(hosts.host_of(link->rank())), roster_(roster) {
  mirror_ = std::make_shared<Mirror>(
      std::move(link),
      hosts,
      Mirror::Losses{
          .lose = [roster =
                       roster_](int rank) mutable { roster.mark_lost(rank); },
          // Who has left still answers, until all have.
          .is_lost =
              [roster = roster_](int rank) {
                return roster.state(rank) == MemberState::lost;
              },
          .is_out_of_reach =
              [roster = roster_](int rank) {
                return roster.state(rank) == MemberState::lost &&
                    roster.is_silent(rank);
              }});
  std::vector<int> all(static_cast<size_t>(hosts.num_ranks()));
  std::iota(all.begin(), all.end(), 0);
  mirror_->add(kRosterNumber, std::move(roster_memory), all, [] {});
}

Outside::~Outside() {
  for (int id = 0; id < roster_.size(); ++id) {
    if (roster_.state(id) == MemberState::lost) {
      mirror_->abandon();
    }
  }
  mirror_->stop(); // tensors in windows may keep it
}

uint32_t Outside::take_number(const std::vector<int64_t>& proposed) const {
  const int64_t number = *std::max_element(proposed.begin(), proposed.end());
  next_number_ = number + 1;
  return static_cast<uint32_t>(number);
}

void Outside::leave_with_the_others(const Roster& roster, int id) const {
  constexpr std::chrono::milliseconds kLook(2);
  for (int other = 0; other < roster.size(); ++other) {
    while (other != id && !roster.gone(other)) {
      std::this_thread::sleep_for(kLook);
    }
    if (roster.state(other) == MemberState::lost) {
      return;
    }
  }
  mirror_->finish();
}

// To every rank: who would pass it on may be gone.
void Outside::tell_status(const Roster& roster, int id) const {
  for (int to = 0; to < roster.size(); ++to) {
    if (!is_here(to) && roster.state(to) != MemberState::lost) {
      mirror_->store_word(kRosterNumber, roster.who_word(id), to);
      mirror_->store_word(kRosterNumber, roster.state_word(id), to);
    }
  }
}

void Outside::tell_heartbeat(const Roster& roster, int id) const {
  for (int host = 0; host < hosts_.num_hosts(); ++host) {
    const auto& there = hosts_.ranks_of(host);
    const auto lives = [&](int to) {
      return roster.state(to) != MemberState::lost;
    };
    // One tells the others there; ranks here are spread over them.
    const auto to = std::ranges::find_if(
        there.begin() + hosts_.place_there(id, host), there.end(), lives);
    const auto first = std::ranges::find_if(there, lives);
    if (host != host_ && first != there.end()) {
      mirror_->store_word(
          kRosterNumber,
          roster.heartbeat_word(id),
          to == there.end() ? *first : *to,
          Order::overtaking);
    }
  }
}

} // namespace zero::comm

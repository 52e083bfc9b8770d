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
    : hosts_(hosts),
      id_(link->rank()),
      host_(hosts.host_of(id_)),
      survives_losses_(link->survives_losses()),
      roster_(roster) {
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

// The rank of another host that is told of `id` for all of them there: the one
// that receives what `id` stores, or the next that lives. -1: none does.
int Outside::receiver(const Roster& roster, int id, int host) const {
  const auto& there = hosts_.ranks_of(host);
  const int first = hosts_.place_there(id, host);
  const int count = static_cast<int>(there.size());
  for (int i = 0; i < count; ++i) {
    const int rank = there[static_cast<size_t>((first + i) % count)];
    if (roster.state(rank) != MemberState::lost) {
      return rank;
    }
  }
  return -1;
}

void Outside::tell_status(const Roster& roster, int id) const {
  const auto tell = [&](int to) {
    mirror_->store_word(kRosterNumber, roster.who_word(id), to);
    mirror_->store_word(kRosterNumber, roster.state_word(id), to);
  };
  for (int host = 0; host < hosts_.num_hosts(); ++host) {
    const int first = receiver(roster, id, host);
    if (host == host_ || first < 0) {
      continue;
    }
    // That this rank leaves is to be known after what it did.
    if (id == id_) {
      tell(first);
      continue;
    }
    // That another is lost, at once, by every rank: who would pass it on may be
    // lost, too.
    for (const int rank : hosts_.ranks_of(host)) {
      tell(rank);
    }
  }
}

void Outside::tell_heartbeat(const Roster& roster, int id) const {
  for (int host = 0; host < hosts_.num_hosts(); ++host) {
    const int to = receiver(roster, id, host);
    if (host != host_ && to >= 0) {
      mirror_->store_word(
          kRosterNumber, roster.heartbeat_word(id), to, Order::overtaking);
    }
  }
}

} // namespace zero::comm

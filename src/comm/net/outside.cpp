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

template <class Tell>
void Outside::tell(int id, Tell tell) const {
  for (int host = 0; host < hosts_.num_hosts(); ++host) {
    if (host != host_) {
      tell(hosts_.counterpart(id, host));
    }
  }
}

void Outside::tell_status(const Roster& roster, int id) const {
  tell(id, [&](int to) {
    mirror_->store_word(kRosterNumber, roster.who_word(id), to);
    mirror_->store_word(kRosterNumber, roster.state_word(id), to);
  });
}

void Outside::tell_heartbeat(const Roster& roster, int id) const {
  tell(id, [&](int to) {
    mirror_->store_word(
        kRosterNumber, roster.heartbeat_word(id), to, Order::overtaking);
  });
}

} // namespace zero::comm

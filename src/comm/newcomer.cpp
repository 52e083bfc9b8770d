#include "comm/newcomer.h"

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/process_owned.h"
#include "comm/shm/assembly.h"
#include "comm/shm/await_ranks.h"

namespace zero::comm {

namespace {

// The others take part in no less than a step.
constexpr std::chrono::milliseconds kTimeBetweenLooks(1);

// Ids of those who train.
std::vector<int> those_who_are_there(const Roster& roster) {
  std::vector<int> ids;
  for (int id = 0; id < roster.num_ids(); ++id) {
    if (roster.state(id) == MemberState::alive && !roster.is_joining(id)) {
      ids.push_back(id);
    }
  }
  return ids;
}

// A newcomer where the others agree on their next membership.
class Guest {
 public:
  Guest(WorldState& world, base::SegmentAddress address)
      : roster_(world.membership->roster()),
        segment_(base::SharedMapping::open(address)) {
    const auto place = Assembly::take_place(
        segment_.assembly(),
        segment_.size(),
        segment_.num_guests(),
        world.membership->id());
    if (!place) {
      return; // there are too many: the next membership has room
    }
    assembly_.emplace(
        segment_.assembly(),
        Assembly::Participant{
            .rank = *place,
            .size = segment_.size(),
            .purpose = "join",
            .timeout_seconds = 0,
            .gone = [this](int other) { return roster_.gone(id_of(other)); },
            .build = nullptr,
            .num_guests = segment_.num_guests()});
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  ~Guest() = default;

  std::shared_ptr<base::SharedMapping> look() {
    auto outcome = assembly_ ? assembly_->look() : std::nullopt;
    return outcome ? std::move(outcome->segment) : nullptr;
  }

 private:
  int id_of(int place) const {
    return place < segment_.size()
        ? segment_.ids()[static_cast<size_t>(place)]
        : Assembly::guest_at(segment_.assembly(), segment_.size(), place);
  }

  Roster& roster_;
  Segment segment_;
  std::optional<Assembly> assembly_;
};

} // namespace

void begin_to_join(WorldState& world) {
  Roster& roster = world.membership->roster();
  const int id = world.membership->id();
  auto ids = those_who_are_there(roster);
  for (const int other : ids) {
    if (roster.verifies(other) != roster.verifies(id)) {
      throw ConfigError(c10::str(
          "init: verifying is ",
          roster.verifies(id) ? "on" : "off",
          " in this process, which takes the place of a lost rank, and not so "
          "in process ",
          roster.pid(other),
          ". Fix: give every rank the same ZERO_VERIFY or "
          "InitOptions::verify"));
    }
  }
  ids.push_back(id);
  world.is_joining = true;
  world.group =
      base::make_process_owned<Group>(world.membership, Segment::create(ids));
}

void require_joined(const WorldState& world) {
  if (world.is_joining) {
    const auto group = world.current();
    throw ConfigError(c10::str(
        base::rank_prefix(group->rank(), group->size()),
        "this process takes the place of a lost rank, and the others have not "
        "let it in yet: there is nobody to communicate with. Fix: make the "
        "Engine first, which waits for that, and leave out what the others did "
        "before it where World::is_joining() is true"));
  }
}

void join_the_others(WorldState& world) {
  const auto& membership = world.membership;
  Roster& roster = membership->roster();
  const auto provisional = world.current();
  std::optional<Guest> guest;
  uint64_t seen = 0;
  std::shared_ptr<base::SharedMapping> segment;
  const auto has_joined = [&] {
    const auto meeting = roster.where_to_meet();
    // Where it is listed, it is in whatever comes after that.
    segment = guest ? guest->look() : nullptr;
    if (segment != nullptr) {
      return true;
    }
    if (meeting.number != seen) {
      seen = meeting.number;
      guest.reset();
      base::failpoint("recovery.moment");
      try {
        guest.emplace(world, meeting.segment);
      } catch (const Error&) {
        // Who had it open is gone, and the others are about to meet anew.
      }
      base::failpoint("recovery.moment");
    }
    if (!roster.is_anybody_there()) {
      throw PeerLost(
          c10::str(
              base::rank_prefix(provisional->rank(), provisional->size()),
              "join: nobody is left who has what was trained. Fix: start the "
              "job again from its last checkpoint"),
          {0, "join", -1});
    }
    return false;
  };
  await_ranks(
      {.rank = provisional->rank(),
       .size = provisional->size(),
       .purpose = "join",
       .timeout_seconds = membership->progress_timeout_seconds(),
       .missing = [] { return 0; }},
      has_joined,
      [] { std::this_thread::sleep_for(kTimeBetweenLooks); });
  base::failpoint("recovery.moment");
  auto group = base::make_process_owned<Group>(membership, std::move(segment));
  {
    const std::lock_guard lock(world.mutex);
    world.group = std::move(group);
  }
  world.is_joining = false;
  roster.has_joined(membership->id());
}

} // namespace zero::comm

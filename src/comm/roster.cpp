#include "comm/roster.h"

#include <unistd.h>

#include <new>

#include "base/error.h"
#include "comm/shm/assembly.h"

namespace zero::comm {

namespace {
constexpr uint64_t kRosterMagic = 0x315245545352'5a4bULL; // "KZRSTER1"
}

struct Roster::Header {
  uint64_t magic;
  int32_t num_ranks;
  int32_t capacity; // ids that there is room for
  std::atomic<int32_t> num_ids;
  std::atomic<uint32_t> losses;
  std::atomic<bool> ends_with_the_first_loss;
  std::atomic<uint64_t> meeting; // its number
  std::atomic<uint64_t> meeting_segment; // process << 32 | descriptor
};

// Words that other hosts are told of have 64 bits.
struct alignas(64) Roster::Member {
  std::atomic<uint64_t> heartbeat;
  std::atomic<uint64_t> state; // a MemberState
  std::atomic<uint64_t> who; // 0: nobody yet; else process << 2, and these:
  static constexpr uint64_t kVerifies = 1;
  static constexpr uint64_t kVictim = 2;
  std::atomic<bool> silent;
  std::atomic<bool> joining;
  std::atomic<uint32_t> loss; // the number it was as this host noticed it

  void change(MemberState from, MemberState to) {
    auto expected = static_cast<uint64_t>(from);
    state.compare_exchange_strong(expected, static_cast<uint64_t>(to));
  }
};

Roster::Roster(std::shared_ptr<base::SharedMapping> mapping)
    : mapping_(std::move(mapping)) {}

Roster Roster::create(int num_ranks, int num_newcomers) {
  if (num_ranks < 1 || num_ranks > kMaxRanks) {
    throw ConfigError(c10::str(
        "cannot make a world of ",
        num_ranks,
        " ranks: expected 1 to ",
        kMaxRanks,
        ". Fix: ask for a number between them"));
  }
  static_assert(sizeof(Header) <= sizeof(Member));
  const int capacity = num_ranks + num_newcomers;
  const size_t members = static_cast<size_t>(capacity) + 1;
  const size_t bytes =
      members * sizeof(Member) + Assembly::bytes_for(num_ranks);
  Roster roster(base::SharedMapping::create("zero-roster", bytes));
  // Fresh shared memory is zero, which is the initial state of every member.
  auto* header = new (roster.mapping_->data()) Header{};
  header->magic = kRosterMagic;
  header->num_ranks = num_ranks;
  header->capacity = capacity;
  header->num_ids = num_ranks;
  return roster;
}

Roster Roster::attach(std::shared_ptr<base::SharedMapping> mapping) {
  Roster roster(std::move(mapping));
  if (roster.mapping_->bytes() < sizeof(Member) ||
      roster.header().magic != kRosterMagic) {
    throw IoError(
        "the segment is not a roster of this version of libzero. Fix: use the "
        "launcher and the library of one installation");
  }
  return roster;
}

Roster::Header& Roster::header() const {
  return *reinterpret_cast<Header*>(mapping_->data());
}

Roster::Member& Roster::member(int id) const {
  ZERO_CHECK(id >= 0 && id < num_ids(), "id ", id, " of ", num_ids());
  // The header has the first place, as large as a member.
  return reinterpret_cast<Member*>(mapping_->data())[id + 1];
}

std::byte* Roster::assembly() const {
  return mapping_->data() +
      (static_cast<size_t>(header().capacity) + 1) * sizeof(Member);
}

int Roster::size() const {
  return header().num_ranks;
}

int Roster::num_ids() const {
  return header().num_ids;
}

void Roster::join(int id, bool verify) {
  if (id < 0 || id >= num_ids()) {
    throw ConfigError(c10::str(
        "rank ",
        id,
        " is out of range: the world has ranks 0 to ",
        size() - 1,
        ". Fix: leave the rank variables as the launcher set them"));
  }
  // Claiming the process id comes first, so that two processes that claim one
  // rank cannot both succeed.
  uint64_t nobody = 0;
  const uint64_t self =
      static_cast<uint64_t>(::getpid()) << 2 | (verify ? Member::kVerifies : 0);
  if (!member(id).who.compare_exchange_strong(nobody, self)) {
    throw ConfigError(c10::str(
        "rank ",
        id,
        " has already joined this world, as process ",
        pid(id),
        ". Fix: call zero::init() in one process per rank, and keep its World "
        "while it is needed: it can be joined once. A child process does not "
        "inherit its parent's rank"));
  }
  member(id).change(MemberState::absent, MemberState::alive);
}

void Roster::leave(int id) {
  member(id).change(MemberState::alive, MemberState::left);
}

void Roster::mark_lost(int id) {
  // Before its loss can be seen.
  uint32_t unnoticed = 0;
  member(id).loss.compare_exchange_strong(unnoticed, ++header().losses);
  // Who left in peace is not lost when its process ends later.
  member(id).change(MemberState::absent, MemberState::lost);
  member(id).change(MemberState::alive, MemberState::lost);
}

MemberState Roster::state(int id) const {
  return static_cast<MemberState>(member(id).state.load());
}

bool Roster::gone(int id) const {
  const auto state = this->state(id);
  return state == MemberState::left || state == MemberState::lost;
}

pid_t Roster::pid(int id) const {
  return static_cast<pid_t>(member(id).who.load() >> 2);
}

bool Roster::verifies(int id) const {
  return (member(id).who.load() & Member::kVerifies) != 0;
}

void Roster::beat(int id) {
  member(id).heartbeat.fetch_add(1);
}

uint64_t Roster::heartbeat(int id) const {
  return member(id).heartbeat;
}

const std::atomic<uint64_t>& Roster::state_word(int id) const {
  return member(id).state;
}

const std::atomic<uint64_t>& Roster::who_word(int id) const {
  return member(id).who;
}

const std::atomic<uint64_t>& Roster::heartbeat_word(int id) const {
  return member(id).heartbeat;
}

void Roster::note_victim(int id) {
  member(id).who.fetch_or(Member::kVictim);
}

void Roster::forgive_victim(int id) {
  member(id).who.fetch_and(~uint64_t{Member::kVictim});
}

bool Roster::is_victim(int id) const {
  return (member(id).who.load() & Member::kVictim) != 0;
}

uint32_t Roster::loss(int id) const {
  return member(id).loss;
}

void Roster::end_with_the_first_loss() {
  header().ends_with_the_first_loss = true;
}

bool Roster::ends_with_the_first_loss() const {
  return header().ends_with_the_first_loss;
}

bool Roster::takes_newcomers() const {
  return header().capacity > size();
}

std::optional<int> Roster::add_newcomer() {
  const int id = num_ids();
  if (id == header().capacity) {
    return std::nullopt;
  }
  // Before anybody can look at it.
  reinterpret_cast<Member*>(mapping_->data())[id + 1].joining = true;
  header().num_ids = id + 1;
  return id;
}

bool Roster::is_joining(int id) const {
  return member(id).joining;
}

void Roster::has_joined(int id) {
  member(id).joining = false;
}

bool Roster::is_anybody_there() const {
  for (int id = 0; id < num_ids(); ++id) {
    if (state(id) == MemberState::alive && !is_joining(id)) {
      return true;
    }
  }
  return false;
}

void Roster::say_where_to_meet(base::SegmentAddress segment) {
  header().meeting_segment = static_cast<uint64_t>(segment.pid) << 32 |
      static_cast<uint32_t>(segment.fd);
  ++header().meeting;
}

Roster::Meeting Roster::where_to_meet() const {
  // The number first: what is newer than it is found with the next look.
  Meeting meeting{.number = header().meeting, .segment = {}};
  const uint64_t segment = header().meeting_segment;
  meeting.segment = {
      static_cast<pid_t>(segment >> 32),
      static_cast<int>(segment & UINT32_MAX)};
  return meeting;
}

void Roster::note_silent(int id) {
  member(id).silent = true;
}

bool Roster::is_silent(int id) const {
  return member(id).silent;
}

} // namespace zero::comm

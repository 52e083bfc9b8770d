#include "comm/shm/group.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/cores.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process_owned.h"
#include "comm/nccl/nccl_group.h"
#include "comm/shm/agreement.h"
#include "comm/shm/assembly.h"
#include "comm/shm/collectives.h"
#include "comm/shm/gone_shortly.h"
#include "comm/window_state.h"

namespace zero::comm {

namespace {

// Newcomers that one membership has room for; more wait for the next one.
constexpr int kGuests = 16;

} // namespace

std::shared_ptr<Group> Group::form(std::shared_ptr<Membership> membership) {
  Roster& roster = membership->roster();
  const int size = roster.size();
  const int id = membership->id();
  auto outcome =
      Assembly(
          roster.assembly(),
          {.rank = id,
           .size = size,
           .purpose = "init",
           .timeout_seconds = membership->progress_timeout_seconds(),
           .gone = [&roster](int rank) { return roster.gone(rank); },
           .build =
               [&roster](const std::vector<int>& ids) {
                 return Segment::create(
                     ids, 0, roster.takes_newcomers() ? kGuests : 0);
               },
           .failed_by_another = [&roster, id] { roster.note_victim(id); }})
          .run();
  for (int rank = 0; rank < size; ++rank) {
    if (!std::binary_search(
            outcome.members.begin(), outcome.members.end(), rank)) {
      roster.note_victim(id);
      throw PeerLost(
          c10::str(
              base::rank_prefix(id, size),
              "init: rank ",
              rank,
              " ended before the world was complete. Fix: see why that rank "
              "ended"),
          {rank, "init", -1});
    }
  }
  check_verifies(roster, id);
  return base::make_process_owned<Group>(
      std::move(membership), outcome.segment);
}

std::shared_ptr<Group> Group::form_over_hosts(
    std::shared_ptr<Membership> membership,
    std::shared_ptr<base::SharedMapping> segment) {
  Roster& roster = membership->roster();
  const int id = membership->id();
  auto group = base::make_process_owned<Group>(
      std::move(membership), std::move(segment));
  group->barrier();
  check_verifies(roster, id);
  return group;
}

void Group::check_verifies(Roster& roster, int id) {
  for (int rank = 0; rank < roster.size(); ++rank) {
    if (roster.verifies(rank) != roster.verifies(id)) {
      throw ConfigError(c10::str(
          base::rank_prefix(id, roster.size()),
          "init: verifying is ",
          roster.verifies(id) ? "on" : "off",
          " here and not so on rank ",
          rank,
          ". Fix: give every rank the same ZERO_VERIFY or "
          "InitOptions::verify"));
    }
  }
}

namespace {

// Where the ranks of a group are, with hosts numbered as they come.
Reach reach_of(
    const std::shared_ptr<const Outside>& outside,
    const Segment& segment,
    int rank) {
  const auto ids = segment.ids();
  std::vector<int> host_of;
  std::vector<int> seen;
  for (const int id : ids) {
    const int host = outside == nullptr ? 0 : outside->hosts().host_of(id);
    const auto known = std::find(seen.begin(), seen.end(), host);
    host_of.push_back(static_cast<int>(known - seen.begin()));
    if (known == seen.end()) {
      seen.push_back(host);
    }
  }
  if (seen.size() == 1) {
    return {rank, segment.size()};
  }
  return {rank, Hosts(host_of), outside->mirror(), segment.number(), ids};
}

} // namespace

Group::Group(
    std::shared_ptr<Membership> membership,
    std::shared_ptr<base::SharedMapping> segment)
    : membership_(std::move(membership)),
      segment_(std::move(segment)),
      ids_(segment_.ids()),
      rank_(static_cast<int>(
          std::find(ids_.begin(), ids_.end(), membership_->id()) -
          ids_.begin())),
      reach_(reach_of(membership_->outside(), segment_, rank_)),
      produced_(ids_.size()),
      consumed_(ids_.size()),
      traffic_(std::make_shared<TrafficCounters>()),
      progress_(segment_, progress_options()) {
  ZERO_CHECK(rank_ < size(), "this rank is not in the group");
  if (segment_.num_guests() > 0 && rank_ == 0) {
    membership_->roster().say_where_to_meet(segment_.memory()->address());
  } else {
    segment_.close_address();
  }
  reach_.add(segment_.memory(), [this] {
    for (const int rank : reach_.hosts().ranks_of(reach_.host())) {
      segment_.state(rank).doorbell.ring();
    }
  });
}

Progress::Options Group::progress_options() {
  return {
      .rank = rank_,
      .progress_timeout_seconds = membership_->progress_timeout_seconds(),
      .may_spin =
          static_cast<int>(reach_.hosts().ranks_of(reach_.host()).size()) <=
          base::available_cores(),
      .news_seconds = reach_.is_one_host() ? 0.0 : 1.0,
      .lost_ranks = [this] { return lost_ranks(); },
      .left_in_order =
          [this](int rank) {
            const int id = ids_[static_cast<size_t>(rank)];
            return membership_->roster().state(id) != MemberState::lost;
          },
      .epitaph = [this](int rank) { return epitaph(rank); },
      .deserter = [this] { return first_to_give_up(); },
      .on_complete =
          [this](const Operation& operation) {
            if (operation.counted) {
              traffic_->count(
                  operation.signature().op, operation.bytes_received());
            }
          },
      .help = reach_.is_one_host() ? std::function<bool()>()
                                   : [this] { return reach_.help(); }};
}

CollectiveContext Group::context() {
  return {segment_, rank_, membership_->verifies(), next_piece_, reach_};
}

Group::~Group() {
  auto& dropped = segment_.state(rank_).dropped;
  dropped = 1;
  for (int other = 0; other < size(); ++other) {
    segment_.state(other).doorbell.ring();
  }
  if (!reach_.is_one_host()) {
    // After shrink() the others have heard what became of it, or are about to,
    // by another way than this word takes: it would come before, to ranks that
    // still agree, and look as if this one had left them.
    if (!successor_) {
      reach_.store_word(dropped);
    }
    reach_.remove();
  }
}

void Group::check_process() const {
  if (!process_.is_here()) {
    throw ConfigError(c10::str(
        base::rank_prefix(rank_, size()),
        "a process made by fork() does not inherit its parent's rank. Fix: "
        "communicate in the process that called zero::init()"));
  }
}

Progress& Group::progress() {
  check_process();
  return progress_;
}

bool Group::gone(int rank) const {
  return membership_->roster().gone(ids_[static_cast<size_t>(rank)]) ||
      segment_.state(rank).dropped != 0;
}

// Who is the cause comes first: a rank that died, then one that left, then one
// that failed because of another, then one that only dropped the communicator.
std::vector<int> Group::lost_ranks() const {
  const Roster& roster = membership_->roster();
  std::vector<std::tuple<int, uint32_t, int>> order;
  for (int rank = 0; rank < size(); ++rank) {
    const int id = ids_[static_cast<size_t>(rank)];
    if (rank != rank_ && gone(rank)) {
      const int guilt = !roster.gone(id)          ? 3
          : roster.is_victim(id)                  ? 2
          : roster.state(id) == MemberState::left ? 1
                                                  : 0;
      order.emplace_back(guilt, roster.loss(id), rank);
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<int> ranks;
  for (const auto& [guilt, loss, rank] : order) {
    ranks.push_back(rank);
  }
  return ranks;
}

std::string Group::epitaph(int rank) const {
  Roster& roster = membership_->roster();
  const int id = ids_[static_cast<size_t>(rank)];
  roster.note_victim(membership_->id());
  switch (roster.state(id)) {
    case MemberState::lost:
      return c10::str("its process ", roster.pid(id), " is gone");
    case MemberState::left:
      return "it has left the world, its program ended or failed";
    default:
      return "it has dropped this communicator";
  }
}

void Group::barrier() {
  const auto operation = make_barrier(context());
  operation->counted = false;
  progress().submit(operation);
  progress().wait(operation);
}

std::vector<int64_t> Group::exchange(
    CommOp purpose,
    const std::vector<int64_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  at::Tensor all = at::empty({count * size()}, at::kLong);
  at::Tensor own = all.narrow(0, count * rank_, count);
  std::copy(values.begin(), values.end(), own.mutable_data_ptr<int64_t>());
  const auto operation = make_all_gather(context(), all, own, purpose);
  operation->counted = false;
  progress().submit(operation);
  progress().wait(operation);
  const auto* data = all.const_data_ptr<int64_t>();
  return {data, data + all.numel()};
}

std::shared_ptr<base::SharedMapping> Group::share(
    CommOp purpose,
    int leader,
    const std::function<std::shared_ptr<base::SharedMapping>()>& make,
    const std::function<void(base::SharedMapping&)>& prepare) {
  // What a rank says of its own attempt.
  enum Vote : int64_t { kFailed, kDone, kLeaderGone };

  std::shared_ptr<base::SharedMapping> mapping;
  std::optional<IoError> failure;
  base::SegmentAddress address;
  if (leader == rank_) {
    try {
      mapping = make();
      address = mapping->address();
    } catch (const IoError& error) {
      failure = error;
    }
  }
  const auto addresses = exchange(purpose, {address.pid, address.fd});
  address.pid = static_cast<pid_t>(addresses[2 * static_cast<size_t>(leader)]);
  address.fd = static_cast<int>(addresses[2 * static_cast<size_t>(leader) + 1]);
  Vote vote = kFailed;
  if (address.pid != 0) {
    try {
      mapping = base::SharedMapping::open(address);
    } catch (const IoError& error) {
      failure = error;
      vote = gone_shortly([&] { return gone(leader); }) ? kLeaderGone : kFailed;
    }
  }
  if (mapping && !failure) {
    try {
      prepare(*mapping);
      vote = kDone;
    } catch (const IoError& error) {
      failure = error;
    }
  }
  const auto votes = exchange(purpose, {vote});
  if (std::find(votes.begin(), votes.end(), kLeaderGone) != votes.end()) {
    // The leader cannot come to one more, so that every rank gets PeerLost. It
    // needs something to exchange: without, nobody waits for anybody.
    exchange(purpose, {0});
  }
  if (failure) {
    throw *failure;
  }
  const auto failed = std::find(votes.begin(), votes.end(), kFailed);
  if (failed != votes.end()) {
    membership_->roster().note_victim(membership_->id());
    throw IoError(c10::str(
        base::rank_prefix(rank_, size()),
        "rank ",
        failed - votes.begin(),
        " could not get shared memory for this; its own message says why"));
  }
  return mapping;
}

int64_t Group::proposed_number() const {
  return reach_.is_one_host() ? 0 : membership_->outside()->proposed_number();
}

uint32_t Group::take_number(const std::vector<int64_t>& proposed) const {
  return reach_.is_one_host() ? 0
                              : membership_->outside()->take_number(proposed);
}

std::shared_ptr<Group> Group::split(int color, int key) {
  const auto choices = exchange(CommOp::split, {color, key, proposed_number()});
  const auto choice = [&](int rank, size_t which) {
    return choices[3 * static_cast<size_t>(rank) + which];
  };
  std::vector<int> ranks;
  std::vector<int64_t> proposed;
  for (int rank = 0; rank < size(); ++rank) {
    proposed.push_back(choice(rank, 2));
    if (choice(rank, 0) == color) {
      ranks.push_back(rank);
    }
  }
  const uint32_t number = take_number(proposed);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return choice(a, 1) < choice(b, 1);
  });
  std::vector<int> ids;
  for (int rank : ranks) {
    ids.push_back(ids_[static_cast<size_t>(rank)]);
  }
  const auto leader = std::find_if(ranks.begin(), ranks.end(), [&](int rank) {
    return reach_.is_here(rank);
  });
  auto segment = share(
      CommOp::split,
      *leader,
      [&] { return Segment::create(ids, number); },
      [](auto&) {});
  return base::make_process_owned<Group>(membership_, std::move(segment));
}

std::shared_ptr<Group> Group::shrink(bool lets_in) {
  check_process();
  const std::lock_guard lock(shrink_mutex_);
  if (successor_) {
    // Ranks may have been lost since.
    return successor_->lost_ranks().empty() ? successor_ : successor_->shrink();
  }
  progress_.abandon(c10::str(
      base::rank_prefix(rank_, size()),
      "the communicator was given up by shrink(). Fix: use the one that "
      "shrink() returned"));
  successor_ = base::make_process_owned<Group>(
      membership_,
      reach_.is_one_host() ? assemble_survivors(lets_in)
                           : agree_on_survivors());
  return successor_;
}

int Group::first_to_give_up() const {
  if (reach_.is_one_host()) {
    return Assembly::first_arrived(segment_.assembly(), size());
  }
  for (int rank = 0; rank < size(); ++rank) {
    if (Agreement::has_come(segment_, rank, rank_)) {
      return rank;
    }
  }
  return -1;
}

std::vector<int> Group::ids_of(const std::vector<int>& ranks) const {
  std::vector<int> ids;
  for (const int rank : ranks) {
    ids.push_back(
        rank < size() ? ids_[static_cast<size_t>(rank)]
                      : Assembly::guest_at(segment_.assembly(), size(), rank));
  }
  return ids;
}

bool Group::is_place_gone(int place) const {
  return place < size() ? gone(place)
                        : membership_->roster().gone(Assembly::guest_at(
                              segment_.assembly(), size(), place));
}

bool Group::is_guest_waiting() const {
  for (int i = 0; i < segment_.num_guests(); ++i) {
    const int id = Assembly::guest_at(segment_.assembly(), size(), size() + i);
    if (id >= 0 && !membership_->roster().gone(id)) {
      return true;
    }
  }
  return false;
}

std::shared_ptr<base::SharedMapping> Group::assemble_survivors(bool lets_in) {
  auto outcome =
      Assembly(
          segment_.assembly(),
          {.rank = rank_,
           .size = size(),
           .purpose = lets_in ? "letting newcomers in" : "shrink",
           .timeout_seconds = membership_->progress_timeout_seconds(),
           .gone = [this](int place) { return is_place_gone(place); },
           .build =
               [this](const std::vector<int>& ranks) {
                 return Segment::create(
                     ids_of(ranks), 0, segment_.num_guests());
               },
           .failed_by_another =
               [this] { membership_->roster().note_victim(membership_->id()); },
           .num_guests = segment_.num_guests(),
           .lets_in = lets_in})
          .run();
  return std::move(outcome.segment);
}

std::shared_ptr<base::SharedMapping> Group::agree_on_survivors() {
  const auto& outside = *membership_->outside();
  const Roster& roster = membership_->roster();
  auto outcome =
      Agreement(
          {.rank = rank_,
           .segment = segment_,
           .reach = reach_,
           .next_number = static_cast<uint32_t>(outside.proposed_number()),
           .timeout_seconds = membership_->progress_timeout_seconds(),
           .gone = [this](int rank) { return gone(rank); },
           .out_of_reach =
               [&](int rank) {
                 const int id = ids_[static_cast<size_t>(rank)];
                 return !outside.is_here(id) && roster.is_silent(id);
               },
           .build =
               [this](const std::vector<int>& ranks, uint32_t number) {
                 return Segment::create(ids_of(ranks), number);
               }})
          .run();
  outside.take_number({outcome.number});
  return std::move(outcome.segment);
}

NcclGroup& Group::nccl(CommOp purpose, c10::Device device) {
  check_process();
  const std::lock_guard lock(nccl_mutex_);
  if (!nccl_) {
    nccl_ =
        std::make_unique<NcclGroup>(*this, purpose, device, load_nccl_module());
  }
  nccl_->require_device(purpose, device);
  return *nccl_;
}

void Group::add_window(const std::shared_ptr<WindowState>& window) {
  const std::lock_guard lock(windows_mutex_);
  windows_.push_back(window);
}

WindowLocation Group::locate(const at::Tensor& tensor) const {
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  const std::lock_guard lock(windows_mutex_);
  for (size_t i = 0; i < windows_.size(); ++i) {
    const auto window = windows_[i].lock();
    if (window && window->contains(rank_, data, tensor.nbytes())) {
      return {static_cast<int64_t>(i), data - window->data(rank_)};
    }
  }
  return {};
}

std::byte* Group::address(int rank, const WindowLocation& location) const {
  const std::lock_guard lock(windows_mutex_);
  const auto window = windows_[static_cast<size_t>(location.window)].lock();
  ZERO_CHECK(window != nullptr, "window ", location.window, " is gone");
  return window->data(rank) + location.offset;
}

} // namespace zero::comm

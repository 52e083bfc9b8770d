// How an EngineState comes to its end when ranks are lost or newcomers are let
// in, and hands over to the next one.
//
// Note [Settling a round]
// Every rank writes down how far it is with the round (journal.h), where its
// host can read it when it is gone. Nobody changes a parameter before it knows
// what all ranks bring to the update, and writes that down first, so that
// either
//   somebody is in the next round: then this one is complete, and whoever is
//     still in it ends it for itself; or
//   somebody knows what all bring, or those who are left do together, since all
//     have decided (and there are no copies, for which the means may not have
//     come): they complete the update, each its own part, and those of the lost
//     ones from where their journals say on, with the means of gradients that
//     are in shared memory; or
//   not: nobody who is left has changed anything, the round is abandoned, and
//     they run it again.
// What a rank writes down only ever comes to be later, and what a lost one
// wrote stays: if another one is lost meanwhile, and this is done again, it
// comes out the same.
//
// Note [Losing a host]
// When all ranks of a host are lost, what they wrote down is, too. Its keeper
// has a copy of what they had (partition.h), which changes with the update, by
// the means that the owners have sent before. A rank that says what it brings
// to the update has sent them; a rank that says so a second time has the means
// of all whose copies its host keeps; and nobody updates before all have said
// so twice. So if one who is left has begun to update, the keeper has all it
// needs to complete the lost ones' part. And if none has, then nobody has
// changed the copy either, and the round is abandoned: what the lost host may
// have done by itself is lost with it.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/failpoint.h"
#include "engine/engine_state.h"
#include "shard/repartition.h"

namespace zero::engine {

namespace {

// What a loss did not bring about stays when it is over.
std::exception_ptr unless_a_loss(const std::exception_ptr& failure) {
  try {
    if (failure) {
      std::rethrow_exception(failure);
    }
  } catch (const PeerLost&) {
    return nullptr;
  } catch (...) {
    return failure;
  }
  return nullptr;
}

} // namespace

EngineState::EngineState(
    const EngineState& before,
    std::shared_ptr<comm::Group> group)
    : module_(before.module_),
      group_(std::move(group)),
      config_(before.config_),
      accumulation_steps_(before.accumulation_steps_),
      has_own_optimizer_(before.has_own_optimizer_),
      optimizer_(before.optimizer_),
      num_states_(before.num_states_),
      global_step_(before.global_step_),
      round_(before.round_),
      result_(before.result_),
      failure_(unless_a_loss(before.failure_)) {
  const auto ranks = before.ranks_of(*group_);
  const shard::Holders holders{
      .of = before.holders(*group_), .of_copies = ranks.front()};
  // Newcomers cannot read what is old: the parts they are to have are dealt out
  // to those who can.
  const auto num_old = static_cast<int>(std::ranges::count_if(
      ranks, [&](int old) { return old < before.size(); }));
  for (const auto& partition : before.partitions_) {
    base::failpoint("recovery.moment");
    // Copies that every rank has for itself are the same, but for what was
    // being written when a rank was lost: all take those of one. Over several
    // hosts only if they are not the same.
    auto own = holders;
    if (shard::has_copies_of_nobody(*partition)) {
      const auto sums = exchange({shard::checksum_of_copies(*partition)});
      if (sums[static_cast<size_t>(rank())] == sums.front()) {
        own.of_copies = before.rank();
      }
    }
    const auto& next =
        add(make_partition(partition->parameters(), partition->trainable()));
    shard::repartition(*partition, next, own, rank());
    for (int newcomer = num_old; newcomer < size(); ++newcomer) {
      if (newcomer % num_old == rank()) {
        shard::repartition(*partition, next, own, newcomer);
      }
    }
  }
  make_training_parts();
  update_->take_counts(*before.update_);
  groups_->take_rates(*before.groups_);
  send_copies();
  if (keeps_copies()) {
    // Who has seen the next one has seen that everybody had what was sent to
    // it: words to one rank come before data to another.
    barrier();
  }
}

EngineState::EngineState(
    const EngineState& before,
    std::shared_ptr<comm::Group> group,
    Emptied /*tag*/)
    : module_(before.module_),
      group_(std::move(group)),
      config_(before.config_),
      accumulation_steps_(before.accumulation_steps_),
      has_own_optimizer_(before.has_own_optimizer_),
      optimizer_(before.optimizer_),
      num_states_(before.num_states_) {
  const auto said =
      exchange({static_cast<int64_t>(before.round_), before.global_step_});
  for (size_t i = 0; i < said.size(); i += 2) {
    round_ = std::max(round_, static_cast<uint64_t>(said[i]));
    global_step_ = std::max(global_step_, said[i + 1]);
  }
  for (const auto& partition : before.partitions_) {
    base::failpoint("recovery.moment");
    add(make_partition(partition->parameters(), partition->trainable()));
  }
  make_training_parts();
  groups_->take_rates(*before.groups_);
}

// By rank: who of those who are left can be asked for what that one had. -1 if
// nobody can.
std::vector<int> EngineState::holders(const comm::Group& survivors) const {
  const auto left = ranks_of(survivors);
  const auto& hosts = group_->reach().hosts();
  const auto one_of = [&](int host) {
    const auto found = std::ranges::find_if(left, [&](int rank) {
      return rank < size() && hosts.host_of(rank) == host; // not a newcomer
    });
    return found == left.end() ? -1 : *found;
  };
  std::vector<int> all;
  for (int rank = 0; rank < size(); ++rank) {
    const int host = hosts.host_of(rank);
    int holder =
        std::ranges::find(left, rank) != left.end() ? rank : one_of(host);
    if (holder < 0 && keeps_copies()) {
      holder = one_of(hosts.keeper(host));
    }
    all.push_back(holder);
  }
  return all;
}

bool EngineState::have_everything(const comm::Group& survivors) const {
  const auto all = holders(survivors);
  return config_.zero_optimization.stage == 0 ||
      std::ranges::find(all, -1) == all.end();
}

bool EngineState::keeps_copies() const {
  return config_.libzero.redundancy > 0 &&
      config_.zero_optimization.stage > 0 && !group_->reach().is_one_host();
}

void EngineState::send_copies() const {
  for (const auto& partition : partitions_) {
    partition->send_copies();
  }
}

// Where a launcher ends those who are left, they do nothing more: what they
// would save would be of a run that nobody asked for.
bool EngineState::goes_on_after_losses() const {
  const auto& membership = *group_->membership();
  return size() > 1 &&
      config_.libzero.on_peer_lost == LibzeroConfig::OnPeerLost::resume &&
      !group_->membership()->roster().ends_with_the_first_loss() &&
      (membership.outside() == nullptr ||
       membership.outside()->survives_losses());
}

bool EngineState::lets_newcomers_in() const {
  return config_.libzero.on_peer_lost == LibzeroConfig::OnPeerLost::resume &&
      group_->reach().is_one_host() &&
      group_->membership()->roster().takes_newcomers();
}

void EngineState::retire() {
  gatherer_.reset();
  gradient_observer_.reset();
  has_module_ = false;
}

void EngineState::begin() {
  has_module_ = true;
  for (const auto& partition : partitions_) {
    take_storages(*partition);
  }
  make_gatherer();
  for (const auto* partition : trainable_) {
    watch_gradients(*partition);
  }
  for (const auto& parameter : all_parameters()) {
    parameter.tensor.mutable_grad().reset();
    tamper_check_.accept(parameter);
  }
}

// Of those who are left, in this group.
std::vector<int> EngineState::ranks_of(const comm::Group& survivors) const {
  const auto ids = group_->segment().ids();
  std::vector<int> ranks;
  for (const int id : survivors.segment().ids()) {
    ranks.push_back(static_cast<int>(std::ranges::find(ids, id) - ids.begin()));
  }
  return ranks;
}

void EngineState::settle_thawing(comm::Group& survivors) {
  // Who has adopted them has seen all ranks complete them.
  const auto all = survivors.exchange(CommOp::all_gather, {num_thawed_});
  if (num_thawed_ < std::ranges::max(all)) {
    adopt_thawed();
  }
  being_thawed_ = {};
}

// What is known of the round that somebody who is left is still in.
struct EngineState::Known {
  uint64_t last_round = 0; // that a rank is in
  // What all ranks bring to this one's update, unless there will be none.
  std::vector<Journal::Contribution> contributions;
};

// Collective. Ranks that are left speak for those of their host that are lost.
EngineState::Known EngineState::ask_how_far_all_are(
    comm::Group& survivors) const {
  const auto& journal = update_->journal();
  const auto left = ranks_of(survivors);
  std::vector<int> spoken_for{rank()};
  for (int other = 0; other < size(); ++other) {
    if (group_->reach().is_here(other) &&
        std::ranges::find(left, other) == left.end()) {
      spoken_for.push_back(other); // it does not change any more
    }
  }
  uint64_t last_round = round_;
  for (const int each : spoken_for) {
    last_round = std::max(last_round, journal.place(each).round);
  }
  const auto rounds = survivors.exchange(
      CommOp::all_gather,
      {static_cast<int64_t>(round_), static_cast<int64_t>(last_round)});
  uint64_t round = round_;
  for (size_t i = 0; i < rounds.size(); i += 2) {
    round = std::min(round, static_cast<uint64_t>(rounds[i]));
    last_round = std::max(last_round, static_cast<uint64_t>(rounds[i + 1]));
  }
  base::failpoint("recovery.moment");

  struct Said {
    int64_t is_known = 0;
    Journal::Contribution contribution;
  };
  std::vector<Said> all(static_cast<size_t>(size()));
  for (const int each : spoken_for) {
    // Where there are copies, that is not enough: the means for them may not
    // have come. Nobody has changed anything before somebody has agreed.
    if (!keeps_copies() &&
        journal.place(each) >= Journal::Place{round, Phase::decided}) {
      all[static_cast<size_t>(each)] = {1, journal.contribution(each, round)};
    }
    const auto agreement = journal.agreement(each, round);
    for (size_t i = 0; i < agreement.size(); ++i) {
      all[i] = {1, agreement[i]};
    }
  }
  std::vector<int64_t> own;
  for (const auto& [is_known, contribution] : all) {
    own.insert(
        own.end(),
        {is_known,
         std::bit_cast<int64_t>(contribution.norm_power_sum),
         contribution.joined ? 1 : 0});
  }
  const auto said = survivors.exchange(CommOp::all_gather, own);
  for (size_t i = 0; i < said.size(); i += 3) {
    if (said[i] != 0) {
      all[i / 3 % all.size()] = {
          1, {std::bit_cast<double>(said[i + 1]), said[i + 2] != 0}};
    }
  }
  Known known{.last_round = last_round, .contributions = {}};
  const bool are_all_known =
      std::ranges::all_of(all, [](const Said& each) { return each.is_known; });
  for (size_t i = 0; round == round_ && are_all_known && i < all.size(); ++i) {
    known.contributions.push_back(all[i].contribution);
  }
  return known;
}

EngineState::Settled EngineState::settle_round(comm::Group& survivors) {
  base::failpoint("recovery.moment");
  auto& journal = update_->journal();
  const Known known = ask_how_far_all_are(survivors);
  const bool is_over = round_ < known.last_round; // for others
  const bool is_decided = !known.contributions.empty();

  base::failpoint("recovery.moment");
  Settled settled;
  bool updates = false;
  bool could_update = true;
  if (is_decided) {
    if (journal.place(rank()).phase < Phase::agreed) {
      journal.agree(round_, known.contributions); // should this begin again
    }
    const Agreement agreement = combine(known.contributions);
    settled.all_joined = agreement.all_joined;
    try {
      if (!agreement.all_joined) {
        check_may_update(agreement.norm);
        updates = true;
        decide(agreement.norm);
      }
    } catch (const Error&) {
      settled.failure = std::current_exception();
    }
  }
  try {
    if (updates && journal.place(rank()).phase < Phase::updated) {
      update_own_part();
    }
    if (updates && !is_over) {
      update_parts_of_the_lost(survivors);
    }
  } catch (...) { // an optimizer of the user's
    settled.failure = std::current_exception();
    could_update = false;
  }
  base::failpoint("recovery.moment");
  const auto votes =
      survivors.exchange(CommOp::all_gather, {could_update ? 1 : 0});
  if (!could_update) {
    std::rethrow_exception(settled.failure);
  }
  if (std::ranges::find(votes, 0) != votes.end()) {
    throw CommError(c10::str(
        prefix(),
        "step: the optimizer failed on another rank, whose own message says "
        "why. Fix: start the job again"));
  }
  base::failpoint("recovery.moment");
  if (updates) {
    // Rank 0 may have been lost before it had said what its buffers are; those
    // of the first rank that is left count then.
    if (buffers_->newest(round_ + 1) == round_ + 1) {
      buffers_->restore(round_ + 1);
    }
    take_updated();
    count_update();
  } else if (!is_decided) {
    if (const auto newest = buffers_->newest(round_)) {
      buffers_->restore(*newest); // as the rounds before have left them
    }
  }
  if (is_decided) {
    try {
      end_round();
    } catch (const Error&) {
      settled.failure = std::current_exception();
    }
  }
  return settled;
}

// Those of a host are dealt out to those who are left there. Of a host that is
// lost as a whole, the keepers have updated the copies with their own part.
void EngineState::update_parts_of_the_lost(const comm::Group& survivors) {
  const auto left = ranks_of(survivors);
  std::vector<int> left_here;
  std::vector<int> lost_here;
  for (const int each :
       group_->reach().hosts().ranks_of(group_->reach().host())) {
    const bool is_left = std::ranges::find(left, each) != left.end();
    (is_left ? left_here : lost_here).push_back(each);
  }
  for (size_t i = 0; i < lost_here.size(); ++i) {
    if (left_here[i % left_here.size()] == rank()) {
      update_part_of(lost_here[i]);
    }
  }
}

// Where each rank updates everything for itself, nobody needs it.
void EngineState::update_part_of(int lost) {
  const auto& journal = update_->journal();
  if (config_.zero_optimization.stage == 0 ||
      journal.place(lost).phase == Phase::updated) {
    return;
  }
  update_->run(lost, decision_);
  base::failpoint("recovery.moment");
  journal.finish(lost, round_);
}

} // namespace zero::engine

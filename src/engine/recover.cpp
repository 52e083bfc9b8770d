// How an EngineState comes to its end when ranks are lost or newcomers are let
// in, and hands over to the next one.
//
// Note [Settling a round]
// Every rank writes down how far it is with the round (journal.h), where it can
// be read when it is gone. Nobody changes a parameter before all ranks have
// come so far that they have nothing more to give, so that either
//   somebody is in the next round: then this one is complete, and whoever is
//     still in it ends it for itself; or
//   all ranks, the lost ones too, have decided: those who are left complete the
//     update, each its own part, and those of the lost ones from where their
//     journals say on, with the means of gradients that are in shared memory;
//     or
//   some rank has not: nobody has changed anything, the round is abandoned, and
//     those who are left run it again.
// What a rank writes down only ever comes to be later, and what a lost one
// wrote stays: if another one is lost meanwhile, and this is done again, it
// comes out the same.
#include <algorithm>

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
      optimizer_(before.optimizer_),
      num_states_(before.num_states_),
      has_own_optimizer_(before.has_own_optimizer_),
      global_step_(before.global_step_),
      round_(before.round_),
      result_(before.result_),
      failure_(unless_a_loss(before.failure_)) {
  // Copies that every rank has for itself are the same, but for what was being
  // written when a rank was lost: all take those of one.
  const auto ranks = before.ranks_of(*group_);
  // Newcomers cannot read what is old: the parts they are to have are dealt out
  // to those who can.
  const auto num_old = static_cast<int>(std::ranges::count_if(
      ranks, [&](int old) { return old < before.size(); }));
  for (const auto& partition : before.partitions_) {
    base::failpoint("recovery.moment");
    const auto& next =
        add(make_partition(partition->parameters(), partition->trainable()));
    shard::repartition(*partition, next, ranks.front(), rank());
    for (int newcomer = num_old; newcomer < size(); ++newcomer) {
      if (newcomer % num_old == rank()) {
        shard::repartition(*partition, next, ranks.front(), newcomer);
      }
    }
  }
  make_training_parts();
  update_->take_counts(*before.update_);
  groups_->take_rates(*before.groups_);
}

// Where a launcher ends those who are left, they do nothing more: what they
// would save would be of a run that nobody asked for.
bool EngineState::goes_on_after_losses() const {
  return size() > 1 &&
      config_.libzero.on_peer_lost == LibzeroConfig::OnPeerLost::resume &&
      !group_->membership()->roster().ends_with_the_first_loss();
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

EngineState::Settled EngineState::settle_round(comm::Group& survivors) {
  base::failpoint("recovery.moment");
  const auto& journal = update_->journal();
  const auto left = ranks_of(survivors);
  const auto said = survivors.exchange(
      CommOp::all_gather,
      {static_cast<int64_t>(round_),
       static_cast<int64_t>(journal.place(rank()).phase)});
  std::vector<Journal::Place> places; // everybody's
  std::vector<int> lost;
  for (int other = 0; other < size(); ++other) {
    const auto found = std::ranges::find(left, other);
    if (found == left.end()) {
      lost.push_back(other);
      places.push_back(journal.place(other)); // it does not change any more
    } else {
      const size_t at = 2 * static_cast<size_t>(found - left.begin());
      places.push_back(
          {static_cast<uint64_t>(said[at]), static_cast<Phase>(said[at + 1])});
    }
  }
  const auto last = std::ranges::max(places);
  const bool is_over = round_ < last.round; // for others
  const bool is_decided =
      std::ranges::min(places) >= Journal::Place{round_, Phase::decided};

  base::failpoint("recovery.moment");
  Settled settled;
  bool updates = false;
  bool could_update = true;
  if (is_over || is_decided) {
    std::vector<Journal::Contribution> contributions;
    for (int other = 0; other < size(); ++other) {
      contributions.push_back(journal.contribution(other, round_));
    }
    const Agreement agreement = combine(contributions);
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
    if (updates && journal.place(rank()).phase == Phase::decided) {
      update_own_part();
    }
    // Those of the lost ones are dealt out to those who are left.
    for (size_t i = 0; updates && !is_over && i < lost.size(); ++i) {
      if (static_cast<int>(i) % survivors.size() == survivors.rank()) {
        update_part_of(lost[i]);
      }
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
  } else if (!is_over && !is_decided) {
    if (const auto newest = buffers_->newest(round_)) {
      buffers_->restore(*newest); // as the rounds before have left them
    }
  }
  if (is_over || is_decided) {
    try {
      end_round();
    } catch (const Error&) {
      settled.failure = std::current_exception();
    }
  }
  return settled;
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

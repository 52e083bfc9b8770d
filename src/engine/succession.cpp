#include "engine/succession.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"

namespace zero::engine {

Succession::Succession(
    const World& world,
    std::shared_ptr<torch::nn::Module> module,
    const Config& config,
    std::shared_ptr<Optimizer> optimizer)
    : world_(comm::state_of(world)),
      state_(std::make_unique<EngineState>(
          world,
          std::move(module),
          config,
          std::move(optimizer))) {
  world_->add(this);
}

Succession::~Succession() {
  world_->remove(this);
}

void Succession::backward(const at::Tensor& loss) {
  throw_what_the_round_ended_with();
  if (is_abandoned_) {
    return; // it is run again from its first micro-batch
  }
  try {
    state_->backward(loss);
  } catch (const PeerLost&) {
    go_on();
    is_abandoned_ = true;
  }
}

StepResult Succession::step() {
  throw_what_the_round_ended_with();
  if (is_abandoned_) {
    return abandoned();
  }
  const auto round = state_->round();
  try {
    return state_->step();
  } catch (const PeerLost&) {
    go_on();
  }
  throw_what_the_round_ended_with();
  const bool is_undone = recoveries_.back().loaded.has_value();
  return state_->round() > round && !is_undone ? state_->result() : abandoned();
}

StepResult Succession::abandoned() {
  is_abandoned_ = false;
  const int64_t step = state_->global_step();
  return {
      .abandoned = true,
      .steps_lost = std::exchange(steps_lost_, 0),
      .lr = state_->groups().lr(step),
      .step = step};
}

void Succession::join() {
  throw_what_the_round_ended_with();
  is_abandoned_ = false; // there are no batches to run it again with
  for (;;) {
    try {
      state_->join();
      return;
    } catch (const PeerLost&) {
      go_on();
    }
    is_abandoned_ = false;
    throw_what_the_round_ended_with();
    if (std::exchange(settled_.all_joined, false)) {
      return;
    }
  }
}

void Succession::zero_grad() {
  state_->zero_grad();
  is_abandoned_ = false; // it begins anew
}

void Succession::recover() {
  const auto lost = state_->group()->lost_ranks();
  if (!lost.empty() && !can_go_on()) {
    if (std::current_exception() != nullptr) {
      throw; // it tells more
    }
    throw PeerLost(
        c10::str(
            state_->prefix(),
            "recover: rank ",
            lost.front(),
            " is lost, and going on without it is not possible here. Fix: start "
            "the job again from its last checkpoint"),
        {lost.front(), "recover", -1});
  }
  if (!lost.empty()) {
    go_on();
  }
  is_abandoned_ = false;
}

void Succession::throw_what_the_round_ended_with() {
  if (auto failure = std::exchange(settled_.failure, nullptr)) {
    std::rethrow_exception(failure);
  }
}

// A rank that only dropped this engine, or gave it up by an exception, is there
// and would have to take part.
bool Succession::can_go_on() const {
  const auto& group = *state_->group();
  const auto& roster = world_->membership->roster();
  if (!state_->goes_on_after_losses()) {
    return false;
  }
  const auto ids = group.segment().ids();
  const auto lost = group.lost_ranks();
  return !lost.empty() && std::ranges::all_of(lost, [&](int rank) {
    return roster.gone(ids[static_cast<size_t>(rank)]);
  });
}

void Succession::go_on() {
  if (!can_go_on()) {
    throw;
  }
  const auto since = base::Clock::now();
  const auto before = state_->group();
  const auto round = state_->round();
  Recovery recovery;
  recovery.step = state_->global_step();
  comm::go_on_without_the_lost(*world_);

  const auto ids = state_->group()->segment().ids();
  const auto& roster = world_->membership->roster();
  std::string who;
  for (int rank = 0; rank < before->size(); ++rank) {
    const int id = before->segment().ids()[static_cast<size_t>(rank)];
    if (std::ranges::find(ids, id) == ids.end()) {
      recovery.ranks.push_back(rank);
      who += c10::str(
          who.empty() ? "" : ", ",
          "rank ",
          rank,
          " (process ",
          roster.pid(id),
          ")");
    }
  }
  recovery.loaded = std::exchange(loaded_, std::nullopt);
  recovery.steps_lost = recovery.loaded ? steps_lost_ : 0;
  recovery.is_round_abandoned =
      state_->round() == round || recovery.loaded.has_value();
  recovery.num_left = state_->size();
  recovery.seconds = base::seconds_since(since);
  recoveries_.push_back(recovery);
  if (state_->rank() == 0) {
    tell(recovery, who);
  }
}

void Succession::tell(const Recovery& recovery, const std::string& who) const {
  const std::string outcome = recovery.loaded
      ? c10::str(
            "back to '",
            recovery.loaded->path,
            "' of step ",
            recovery.loaded->step,
            ", ",
            recovery.steps_lost,
            recovery.steps_lost == 1 ? " step is" : " steps are",
            " done again")
      : c10::str(
            "the round ",
            recovery.is_round_abandoned ? "is run again" : "was completed",
            ", nothing else is lost");
  base::log_warning(
      state_->rank(),
      state_->size(),
      c10::str(
          who,
          recovery.ranks.size() == 1 ? " was" : " were",
          " lost after step ",
          recovery.step,
          "; ",
          outcome,
          "; ",
          recovery.num_left,
          recovery.num_left == 1 ? " rank goes" : " ranks go",
          " on after ",
          std::ceil(recovery.seconds * 1000),
          " ms"));
}

void Succession::go_on_with(const std::shared_ptr<comm::Group>& survivors) {
  base::failpoint("recovery.moment");
  const auto generations =
      survivors->exchange(CommOp::all_gather, {generation_});
  if (generation_ < std::ranges::max(generations)) {
    change_over();
  }
  next_.reset();
  if (state_->size() == survivors->size()) {
    return; // nobody of these is lost
  }
  if (!state_->have_everything(*survivors)) {
    go_back_with(*survivors);
    return;
  }
  state_->settle_thawing(*survivors);
  const auto round = state_->round();
  const bool has_begun = state_->micro_step() > 0;
  const auto settled = state_->settle_round(*survivors);
  if (settled.failure || settled.all_joined) {
    settled_ = settled;
  }
  is_abandoned_ = is_abandoned_ || (has_begun && state_->round() == round);

  base::failpoint("recovery.moment");
  next_ = std::make_unique<EngineState>(
      *state_, survivors->split(0, survivors->rank()));
  base::failpoint("recovery.moment");
  next_->barrier(); // everybody has filled its part
  base::failpoint("recovery.moment");
  change_over();
}

// Nobody who is left has what the lost ones had: all begin again with what was
// saved last.
void Succession::go_back_with(comm::Group& survivors) {
  const auto votes =
      survivors.exchange(CommOp::all_gather, {reload_ == nullptr ? 0 : 1});
  const auto lost = state_->group()->lost_ranks();
  const auto give_up = [&](const std::string& why) {
    throw PeerLost(
        c10::str(
            state_->prefix(),
            "rank ",
            lost.front(),
            " is lost with all that its host had, and ",
            why,
            ". Fix: start the job again; \"libzero\": {\"redundancy\": 1} "
            "survives the loss of a host, and so does one that has saved"),
        {lost.front(), "step", -1});
  };
  if (std::ranges::find(votes, 0) != votes.end()) {
    give_up("nothing has been saved");
  }
  next_ = std::make_unique<EngineState>(
      *state_, survivors.split(0, survivors.rank()), EngineState::Emptied{});
  const int64_t reached = next_->global_step();
  base::failpoint("recovery.moment");
  try {
    loaded_ = reload_(*next_);
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    give_up(error.what());
  }
  steps_lost_ = reached - next_->global_step();
  settled_ = {};
  is_abandoned_ = true;
  base::failpoint("recovery.moment");
  next_->barrier(); // everybody has loaded its part
  base::failpoint("recovery.moment");
  change_over();
}

// What begin() needs of the others may fail, if another is lost: this rank has
// changed over all the same.
void Succession::change_over() {
  state_->retire();
  state_ = std::move(next_);
  ++generation_;
  state_->begin();
}

} // namespace zero::engine

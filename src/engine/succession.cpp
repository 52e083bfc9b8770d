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
  return state_->round() > round ? state_->result() : abandoned();
}

StepResult Succession::abandoned() {
  is_abandoned_ = false;
  const int64_t step = state_->global_step();
  return {.abandoned = true, .lr = state_->groups().lr(step), .step = step};
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
  if (!state_->goes_on_after_losses() || !group.reach().is_one_host()) {
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
  recovery.is_round_abandoned = state_->round() == round;
  recovery.num_left = state_->size();
  recovery.seconds = base::seconds_since(since);
  recoveries_.push_back(recovery);
  if (state_->rank() == 0) {
    base::log_warning(
        state_->rank(),
        state_->size(),
        c10::str(
            who,
            recovery.ranks.size() == 1 ? " was" : " were",
            " lost after step ",
            recovery.step,
            "; the round ",
            recovery.is_round_abandoned ? "is run again" : "was completed",
            ", nothing else is lost; ",
            recovery.num_left,
            recovery.num_left == 1 ? " rank goes" : " ranks go",
            " on after ",
            std::ceil(recovery.seconds * 1000),
            " ms"));
  }
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

void Succession::change_over() {
  state_->retire();
  state_ = std::move(next_);
  state_->begin();
  ++generation_;
}

} // namespace zero::engine

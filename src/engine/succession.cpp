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
    : world_(comm::state_of(world)) {
  const bool is_newcomer =
      world_->is_joining || world_->dependents.size() < world_->num_expected;
  if (is_newcomer) {
    join_the_others({std::move(module), config, std::move(optimizer)});
    return;
  }
  state_ = std::make_unique<EngineState>(
      world, std::move(module), config, std::move(optimizer));
  watch_for_newcomers();
  world_->add(this);
}

// Throws: what keeps this process from taking part.
void Succession::join_the_others(EngineState::Newcomer newcomer) {
  const auto since = base::Clock::now();
  newcomer.config.validate();
  EngineState::require_module(newcomer.module);
  EngineState::set_timeouts(*world_->membership, newcomer.config);
  newcomer_ = std::move(newcomer);
  world_->add(this);
  try {
    if (world_->is_joining) {
      comm::join_the_others(*world_);
    }
    try {
      go_on_with(world_->current());
    } catch (const CommError&) {
      if (world_->current()->lost_ranks().empty()) {
        throw;
      }
      comm::go_on_without_the_lost(*world_);
    }
  } catch (...) {
    world_->remove(this);
    throw;
  }
  newcomer_.reset();
  recoveries_.push_back(
      {.ranks = {},
       .joined = {state_->rank()},
       .step = state_->global_step(),
       .is_round_abandoned = true,
       .num_left = state_->size(),
       .seconds = base::seconds_since(since)});
}

// The others are waiting for it.
void Succession::require_all_engines() const {
  if (world_->dependents.size() < world_->num_expected) {
    throw ConfigError(c10::str(
        state_->prefix(),
        "this process takes the place of a lost rank and has made ",
        world_->dependents.size(),
        " of ",
        world_->num_expected,
        " engines that the others have. Fix: make all engines before the first "
        "is used"));
  }
  world_->num_expected = 0;
}

Succession::~Succession() {
  world_->remove(this);
}

void Succession::backward(const at::Tensor& loss) {
  throw_what_the_round_ended_with();
  if (is_abandoned_) {
    return; // it is run again from its first micro-batch
  }
  require_all_engines();
  if (world_->lets_in) {
    let_in();
    is_abandoned_ = true;
    return;
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
  require_all_engines();
  if (world_->lets_in) {
    let_in();
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
  require_all_engines();
  for (;;) {
    try {
      if (world_->lets_in) {
        let_in();
      }
      if (state_->join()) {
        return;
      }
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
  steps_lost_ = 0;
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
  steps_lost_ = 0;
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

Succession::Before Succession::before() const {
  return {
      state_->group(),
      state_->round(),
      state_->global_step(),
      base::Clock::now()};
}

void Succession::go_on() {
  if (!can_go_on()) {
    throw;
  }
  const auto before = this->before();
  loaded_.reset(); // of a loss that another engine has noticed
  comm::go_on_without_the_lost(*world_);
  remember(before);
}

void Succession::watch_for_newcomers() {
  state_->set_admission(
      {.would_let_in = [this] { return would_let_in(); },
       .lets_in = [this] { world_->lets_in = true; }});
}

bool Succession::would_let_in() const {
  const auto group = world_->current();
  if (world_->dependents.back() != this || !state_->lets_newcomers_in()) {
    return false;
  }
  const bool are_others_ready =
      std::ranges::all_of(world_->dependents, [this](const auto* other) {
        return other == this || other->is_between_rounds();
      });
  return are_others_ready && (group->rank() != 0 || group->is_guest_waiting());
}

bool Succession::is_between_rounds() const {
  return state_ && state_->micro_step() == 0 && !is_abandoned_;
}

void Succession::let_in() {
  state_->check_parameters();
  state_->check_nothing_lent();
  const auto before = this->before();
  loaded_.reset();
  comm::let_in_newcomers(*world_);
  if (before.group != state_->group()) { // else they have died meanwhile
    remember(before);
  }
}

void Succession::remember(const Before& before) {
  Recovery recovery{
      .ranks = {},
      .joined = {},
      .step = before.step,
      .is_round_abandoned = state_->round() == before.round || loaded_,
      .num_left = state_->size(),
      .loaded = std::exchange(loaded_, std::nullopt),
      .steps_lost = 0,
      .seconds = base::seconds_since(before.since)};
  if (recovery.loaded) {
    recovery.steps_lost = steps_lost_;
  }
  const auto ids = state_->group()->segment().ids();
  const auto ids_before = before.group->segment().ids();
  const auto numbers_of_new = [](const auto& those, const auto& others) {
    std::vector<int> ranks;
    for (size_t rank = 0; rank < those.size(); ++rank) {
      if (std::ranges::find(others, those[rank]) == others.end()) {
        ranks.push_back(static_cast<int>(rank));
      }
    }
    return ranks;
  };
  recovery.ranks = numbers_of_new(ids_before, ids);
  recovery.joined = numbers_of_new(ids, ids_before);
  recoveries_.push_back(recovery);
  if (state_->rank() == 0) {
    tell(recovery, *before.group);
  }
}

void Succession::tell(const Recovery& recovery, const comm::Group& before)
    const {
  const auto& roster = world_->membership->roster();
  const auto who = [&](const std::vector<int>& ranks,
                       const comm::Group& group) {
    std::string text;
    for (const int rank : ranks) {
      text += c10::str(
          text.empty() ? "" : ", ",
          "rank ",
          rank,
          " (process ",
          roster.pid(group.segment().ids()[static_cast<size_t>(rank)]),
          ")");
    }
    return text;
  };
  std::string what;
  if (!recovery.ranks.empty()) {
    what = c10::str(
        who(recovery.ranks, before),
        recovery.ranks.size() == 1 ? " was" : " were",
        " lost after step ",
        recovery.step,
        "; ",
        recovery.loaded
            ? c10::str(
                  "back to '",
                  recovery.loaded->path,
                  "' of step ",
                  recovery.loaded->step,
                  ", ",
                  recovery.steps_lost,
                  recovery.steps_lost == 1 ? " step is" : " steps are",
                  " done again; ")
            : c10::str(
                  "the round ",
                  recovery.is_round_abandoned ? "is run again"
                                              : "was completed",
                  ", nothing else is lost; "));
  }
  if (!recovery.joined.empty()) {
    what += c10::str(
        who(recovery.joined, *state_->group()),
        recovery.joined.size() == 1 ? " has" : " have",
        " joined after step ",
        recovery.step,
        "; ");
  }
  base::log_warning(
      state_->rank(),
      state_->size(),
      c10::str(
          what,
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
  if (generation_ < std::ranges::max(generations) && next_) {
    try {
      change_over();
    } catch (const CommError&) {
      // One of its ranks is lost, so that it is replaced at once.
    }
  }
  next_.reset();
  const auto trains = survivors->exchange(CommOp::all_gather, {state_ ? 1 : 0});
  const bool has_newcomers = std::ranges::find(trains, 0) != trains.end();
  if (trains.front() == 0) { // newcomers come last
    throw PeerLost(
        c10::str(
            base::rank_prefix(survivors->rank(), survivors->size()),
            "join: nobody is left who has what was trained. Fix: start the job "
            "again from its last checkpoint"),
        {0, "join", -1});
  }
  if (!has_newcomers &&
      state_->group()->segment().ids() == survivors->segment().ids()) {
    return; // nobody of these is lost
  }
  const auto those_who_train = has_newcomers
      ? survivors->split(state_ ? 0 : 1, survivors->rank())
      : survivors;
  if (state_) {
    state_->settle_thawing(*those_who_train);
    if (!state_->have_everything(*those_who_train)) {
      go_back_with(*those_who_train); // over several hosts, without newcomers
      return;
    }
    const auto round = state_->round();
    const bool has_begun = state_->micro_step() > 0;
    const auto settled = state_->settle_round(*those_who_train);
    if (settled.failure || settled.all_joined) {
      settled_ = settled;
    }
    is_abandoned_ = is_abandoned_ || (has_begun && state_->round() == round);
  }

  base::failpoint("recovery.moment");
  if (has_newcomers) {
    make_next_with_newcomers(*survivors);
  } else {
    next_ = std::make_unique<EngineState>(
        *state_, survivors->split(0, survivors->rank()));
  }
  base::failpoint("recovery.moment");
  next_->barrier(); // everybody has filled its part
  base::failpoint("recovery.moment");
  change_over();
}

// If that fails on a newcomer, or for want of memory, the others stay as they
// are.
void Succession::make_next_with_newcomers(comm::Group& survivors) {
  Handover handover;
  if (state_) {
    handover = state_->handover();
    handover.generation = generation_;
    handover.num_engines = static_cast<int64_t>(world_->dependents.size());
  }
  handover = handover_from(text_of_rank_0(survivors, to_text(handover)));
  std::vector<std::vector<shard::Parameter>> partitions;
  std::exception_ptr refusal;
  if (!state_) {
    generation_ = handover.generation;
    world_->num_expected = static_cast<size_t>(handover.num_engines);
    try {
      const auto optimizer = EngineState::optimizer_or_configured(
          newcomer_->optimizer, newcomer_->config);
      partitions = match(
          *newcomer_->module,
          newcomer_->config,
          optimizer->num_states(),
          handover,
          base::rank_prefix(survivors.rank(), survivors.size()));
    } catch (const Error&) {
      refusal = std::current_exception();
    }
  }
  base::failpoint("recovery.moment");
  const auto votes = survivors.exchange(CommOp::all_gather, {refusal ? 0 : 1});
  const auto stay_without_it = [&](const std::exception_ptr& failure) {
    if (!state_ && failure) {
      world_->membership->roster().leave(world_->membership->id());
      std::rethrow_exception(failure);
    }
    // Who has left does not come to this, so that all others get PeerLost.
    survivors.exchange(CommOp::all_gather, {0});
  };
  if (std::ranges::find(votes, 0) != votes.end()) {
    stay_without_it(refusal);
  }
  try {
    auto group = survivors.split(0, survivors.rank());
    next_ = state_
        ? std::make_unique<EngineState>(*state_, std::move(group))
        : std::make_unique<EngineState>(
              *newcomer_, handover, std::move(partitions), std::move(group));
  } catch (const IoError& error) {
    if (state_) {
      base::log_warning(
          state_->rank(),
          state_->size(),
          c10::str("newcomers cannot be let in: ", base::message_of(error)));
    }
    stay_without_it(std::current_exception());
  }
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
  steps_lost_ += reached - next_->global_step();
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
  if (state_) {
    state_->retire();
  }
  state_ = std::move(next_);
  ++generation_;
  watch_for_newcomers();
  state_->begin();
}

} // namespace zero::engine

#include "engine/engine_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/activity.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "comm/shm/collectives.h"
#include "comm/world_state.h"
#include "optim/norm.h"

namespace zero::engine {

using shard::Home;

void EngineState::backward(const at::Tensor& loss) {
  const base::Span span(base::Activity::backward);
  remember_failure([&] { run_backward(loss); });
}

void EngineState::run_backward(const at::Tensor& loss) {
  check_parameters();
  check_nothing_lent();
  const bool reduces = reduces_now();
  const at::Tensor scaled = accumulation_steps_ == 1
      ? loss
      : loss / static_cast<double>(accumulation_steps_);
  if (reduces) {
    reducer_->begin_pass();
  }
  try {
    scaled.backward();
  } catch (...) {
    if (gatherer_) {
      gatherer_->throw_failure();
    }
    // The others wait for this rank's gradients; those it has count.
    if (reduces) {
      reducer_->finish_pass();
    }
    throw;
  }
  if (reduces) {
    reducer_->finish_pass();
  }
  ++micro_step_;
}

// Where ranks keep full gradients, they are reduced once, with the last
// micro-batch of the round.
bool EngineState::reduces_now() const {
  const bool accumulates_in_shards = config_.zero_optimization.stage >= 2 &&
      config_.libzero.accumulate == LibzeroConfig::Accumulate::shard;
  return accumulates_in_shards || micro_step_ + 1 >= accumulation_steps_;
}

StepResult EngineState::step() {
  StepResult result;
  remember_failure([&] { result = run_step(); });
  return result;
}

StepResult EngineState::run_step() {
  check_parameters();
  check_nothing_lent();
  tamper_check_.check_members(
      base::rank_prefix(rank(), group_->size()), *module_);
  if (micro_step_ > 0 && micro_step_ < accumulation_steps_) {
    return {.lr = groups_->lr(global_step_), .step = global_step_};
  }

  // ---- the step ----------------------------------------------------------
  reduce_what_is_left();
  const double norm = agree(false).norm; // when all are here, it is decided
  update_parameters(norm);
  publish_parameters();
  end_round();
  check_replicas(); // where the configuration asks for it
  // ------------------------------------------------------------------------

  print();
  return result_;
}

void EngineState::print() const {
  const auto every = config_.steps_per_print;
  if (every && rank() == 0 && result_.step % *every == 0) {
    base::log_info(
        rank(),
        group_->size(),
        c10::str(
            "step ",
            result_.step,
            ": learning rate ",
            result_.lr,
            ", gradient norm ",
            result_.grad_norm));
  }
}

bool EngineState::join() {
  bool have_all_joined = false;
  remember_failure([&] { have_all_joined = run_join(); });
  return have_all_joined;
}

bool EngineState::run_join() {
  check_parameters();
  check_nothing_lent();
  for (;;) {
    // What a rank has of an unfinished round still counts.
    const bool has_nothing = micro_step_ == 0;
    reduce_what_is_left();
    const Agreement agreement = agree(has_nothing);
    if (agreement.all_joined) {
      end_round();
      return true;
    }
    update_parameters(agreement.norm);
    publish_parameters();
    end_round();
    check_replicas();
    if (agreement.lets_in) {
      return false;
    }
  }
}

void EngineState::reduce_what_is_left() {
  say_what_thaws();
  reduce_and_close();
  if (take_in_what_thaws()) {
    reduce_and_close(); // its gradients, too
  }
  if (config_.zero_optimization.stage == 0) {
    reducer_->gather_means();
  }
}

void EngineState::reduce_and_close() {
  // Gradients that did not come by backward(): the user called autograd.
  if (reducer_->has_unreduced_gradients()) {
    reducer_->begin_pass();
    try {
      reducer_->finish_pass();
    } catch (const ConfigError&) {
      // The others are in this round: it is finished with what can be used.
      refused_ = std::current_exception();
    }
  }
  base::failpoint("engine.moment");
  reducer_->close_round();
  base::failpoint("engine.moment");
}

EngineState::Agreement EngineState::agree(bool joined) {
  // Nobody updates before all have agreed, so nobody reads by then.
  if (gatherer_) {
    gatherer_->pause();
  }
  // Every element counts once, on the rank that has reduced it.
  const double own = reducer_->norm_power_sum();
  send_means();
  update_->journal().decide(round_, {own, joined});
  base::failpoint("engine.moment");
  constexpr int64_t kJoined = 1;
  constexpr int64_t kWouldLetIn = 2;
  const auto all = exchange(
      {std::bit_cast<int64_t>(own),
       (joined ? kJoined : 0) | (admission_.would_let_in() ? kWouldLetIn : 0)});
  control_bytes_ += int64_t{16} * (group_->size() - 1);
  std::vector<Journal::Contribution> contributions;
  bool lets_in = true;
  for (size_t i = 0; i < all.size(); i += 2) {
    contributions.push_back(
        {std::bit_cast<double>(all[i]), (all[i + 1] & kJoined) != 0});
    lets_in = lets_in && (all[i + 1] & kWouldLetIn) != 0;
  }
  base::failpoint("engine.moment");
  if (keeps_copies()) {
    barrier(); // everybody has the means of which it keeps copies
    base::failpoint("engine.moment");
  }
  update_->journal().agree(round_, contributions);
  base::failpoint("engine.moment");
  Agreement agreement = combine(contributions);
  agreement.lets_in = lets_in;
  if (lets_in) {
    admission_.lets_in();
  }
  return agreement;
}

EngineState::Agreement EngineState::combine(
    const std::vector<Journal::Contribution>& contributions) const {
  const double p = config_.libzero.clip_norm_type;
  Agreement agreement{.norm = 0, .all_joined = true};
  for (const auto& [norm_power_sum, joined] : contributions) {
    agreement.norm = optim::combine(agreement.norm, norm_power_sum, p);
    agreement.all_joined = agreement.all_joined && joined;
  }
  agreement.norm = optim::finish(agreement.norm, p);
  return agreement;
}

void EngineState::update_parameters(double norm) {
  try {
    check_may_update(norm); // alike on all ranks
  } catch (const Error&) {
    end_round();
    throw;
  }
  decide(norm);
  base::failpoint("engine.moment");
  std::exception_ptr failure;
  try {
    update_own_part();
  } catch (...) { // an optimizer of the user's
    failure = std::current_exception();
  }
  send_updated();
  await_all_updates(failure);
}

void EngineState::check_may_update(double norm) const {
  if (!std::isfinite(norm) &&
      config_.libzero.on_nonfinite == LibzeroConfig::OnNonfinite::raise) {
    throw NonfiniteError(c10::str(
        base::rank_prefix(rank(), group_->size()),
        "step ",
        global_step_ + 1,
        ": the norm of the gradients is ",
        norm,
        ". Parameters are as they were before it. Fix: lower the learning "
        "rate, or look for what is not a number in the data or the loss"));
  }
  if (!config_.zero_optimization.ignore_unused_parameters) {
    reducer_->check_all_have_gradients();
  }
}

void EngineState::decide(double norm) {
  result_ = {
      .updated = true, .grad_norm = norm, .lr = groups_->lr(global_step_)};
  const double limit = config_.gradient_clipping;
  decision_ = {.gradient_factor = 1, .step = global_step_};
  if (limit > 0) {
    // As torch and DeepSpeed have it. A norm that is not a number makes the
    // gradients so too, and is not hidden.
    const double factor = limit / (norm + 1e-6);
    decision_.gradient_factor = factor < 1 || std::isnan(factor) ? factor : 1;
  }
}

void EngineState::update_own_part() {
  {
    const base::Span span(base::Activity::update);
    update_->run(rank(), decision_);
  }
  buffers_->offer(round_ + 1);
  base::failpoint("engine.moment");
  update_->journal().finish(rank(), round_);
  base::failpoint("engine.moment");
}

// To who keeps a copy of this rank's slices, and updates it with them.
void EngineState::send_means() {
  for (const auto* partition : trainable_) {
    partition->send_means();
    const int64_t bytes = partition->copied_mean_bytes();
    copied_bytes_ += bytes;
    group_->traffic()->count(CommOp::all_gather, bytes);
    group_->traffic()->count_from_other_hosts(bytes);
  }
}

// To other hosts' copies; but a keeper updates its own.
void EngineState::send_updated() const {
  for (const auto* partition : trainable_) {
    if (partition->parameters_can_be_absent() ||
        partition->state_home() != Home::shard) {
      continue;
    }
    const auto& reach = partition->window()->reach;
    if (!reach) {
      continue;
    }
    const auto& hosts = reach->hosts();
    for (int host = 0; host < hosts.num_hosts(); ++host) {
      if (partition->has_copies() && host == hosts.keeper(reach->host())) {
        continue;
      }
      for (const auto& slice : partition->updated_slices(rank())) {
        reach->store(
            partition->parameter_at(rank(), slice.range.begin, 0),
            slice.range.numel() * partition->element_bytes(),
            host);
      }
    }
  }
}

// What is updated in part is of no more use: every later call fails, too.
void EngineState::await_all_updates(const std::exception_ptr& failure) {
  const auto done = exchange({failure == nullptr ? 1 : 0});
  if (failure != nullptr) {
    failure_ = failure;
    std::rethrow_exception(failure);
  }
  const auto failed = std::find(done.begin(), done.end(), 0);
  if (failed != done.end()) {
    throw CommError(c10::str(
        base::rank_prefix(rank(), group_->size()),
        "step: the optimizer failed on rank ",
        failed - done.begin(),
        ", whose own message says why. Fix: start the job again"));
  }
}

std::vector<int64_t> EngineState::exchange(
    const std::vector<int64_t>& own) const {
  const base::Span span(base::Activity::wait);
  return group_->exchange(CommOp::all_gather, own);
}

void EngineState::publish_parameters() {
  const base::Span span(base::Activity::gather);
  take_updated();
  buffers_->take(round_ + 1);
  base::failpoint("engine.moment");
  count_update();
}

void EngineState::count_update() {
  // A backward through a graph of before raises, as it does in torch; not if
  // what it needs had no gradient and is as it was.
  for (int index = 0; index < static_cast<int>(trainable_.size()); ++index) {
    const auto& partition = *trainable_[static_cast<size_t>(index)];
    for (int i = 0; i < partition.layout().num_parameters(); ++i) {
      if (reducer_->has_gradient({index, i})) {
        partition.parameter(i).tensor.unsafeGetTensorImpl()->bump_version();
      }
    }
  }
  tamper_check_.accept_all();
  update_->count();
  result_.step = ++global_step_;
}

// What the others have written, into this rank's copy.
void EngineState::take_updated() const {
  for (const auto* partition : trainable_) {
    // Stages 1 and 2 with copies of their own: take what the others updated.
    if (partition->parameter_home() != Home::full ||
        partition->state_home() != Home::shard) {
      continue;
    }
    const int64_t element = partition->element_bytes();
    int64_t received = 0;
    partition->layout().for_each_slice(
        {0, partition->layout().numel()}, [&](const shard::OwnedSlice& slice) {
          if (slice.rank == rank()) {
            return;
          }
          const int64_t bytes = slice.range.numel() * element;
          std::memcpy(
              partition->parameter_at(rank(), slice.range.begin, 0),
              partition->parameter_at(slice.rank, slice.range.begin, 0),
              static_cast<size_t>(bytes));
          received += bytes;
        });
    group_->traffic()->count(CommOp::all_gather, received);
  }
  count_sent_by_others();
}

// Each rank of a host counts its share of what came there.
void EngineState::count_sent_by_others() const {
  const auto& reach = group_->reach();
  for (const auto* partition : trainable_) {
    if (reach.is_one_host() || partition->parameters_can_be_absent() ||
        partition->state_home() != Home::shard) {
      continue;
    }
    int64_t numel = 0;
    for (int other = 0; other < group_->size(); ++other) {
      const bool is_received = !partition->window()->is_kept_here(other) &&
          reach.hosts().counterpart(other, reach.host()) == rank();
      numel += is_received ? partition->layout().shard_numel(other) : 0;
    }
    const int64_t bytes = numel * partition->element_bytes();
    if (partition->parameter_home() == Home::once) {
      group_->traffic()->count(CommOp::all_gather, bytes);
    }
    group_->traffic()->count_from_other_hosts(bytes);
  }
}

void EngineState::end_round() {
  update_->journal().open(++round_);
  base::failpoint("engine.moment");
  reducer_->next_round();
  thawing_->next_round();
  if (gatherer_) {
    gatherer_->resume();
  }
  micro_step_ = 0;
  if (refused_) {
    std::rethrow_exception(std::exchange(refused_, nullptr));
  }
}

void EngineState::set_accumulation_steps(int64_t steps) {
  check_between_rounds("set_accumulation_steps");
  if (steps < 1) {
    throw ConfigError(c10::str(
        prefix(),
        "set_accumulation_steps: ",
        steps,
        " micro-batches in a round, expected at least 1. Fix: give the same "
        "number on every rank"));
  }
  accumulation_steps_ = steps;
}

void EngineState::zero_grad() {
  check_parameters();
  reducer_->discard();
  for (const auto* partition : frozen_) {
    for (const auto& parameter : partition->parameters()) {
      parameter.tensor.mutable_grad().reset();
    }
  }
  micro_step_ = 0;
}

void EngineState::barrier() const {
  group_->barrier();
}

bool EngineState::agree_on(bool yes) const {
  const auto votes = exchange({yes ? 1 : 0});
  return std::find(votes.begin(), votes.end(), 0) == votes.end();
}

// What ranks were in the middle of when one was lost cannot go on: every later
// call fails as the first one did.
void EngineState::remember_failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError&) {
    failure_ = std::current_exception();
    throw;
  }
}

// An update would be lost under what the guard writes at its end.
void EngineState::check_nothing_lent() const {
  if (!lent_.empty()) {
    const auto& place = lent_.front();
    throw ConfigError(c10::str(
        base::rank_prefix(rank(), group_->size()),
        "parameter '",
        place.partition->parameter(place.number).name(),
        "' is being written. Fix: end the guard of engine.gather(..., "
        "zero::Access::write) before training goes on"));
  }
}

void EngineState::check_parameters() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  if (gatherer_) {
    gatherer_->throw_failure();
  }
  const auto prefix = base::rank_prefix(rank(), group_->size());
  tamper_check_.check(prefix);
  buffers_->check(prefix);
}

} // namespace zero::engine

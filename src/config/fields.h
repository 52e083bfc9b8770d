// Defines the one list of the fields of a Config: their keys and what is asked
// of their values. Reading a file, checking and writing are visitors of it, so
// that they cannot disagree.
//
//   struct Visitor {
//     template <class T>
//     void operator()(const char* key, T& field, const Range& range);
//     template <class Words, class Enum>
//     void word(const char* key, Enum& field, const Words& words);
//   };
//
// What one key cannot express (types, parameter groups, the norm's type) is
// beside the visitors.
#pragma once

#include <zero/config.h>

#include <array>
#include <limits>

#include "config/section.h"

namespace zero::config {

// Which numbers make sense; a bool has no use for it.
struct Range {
  const char* expected = "";
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
  bool excludes_low = false;
  bool excludes_high = false;

  bool contains(double number) const {
    return (excludes_low ? number > low : number >= low) &&
        (excludes_high ? number < high : number <= high); // nor is NaN
  }
};

inline constexpr Range kAnyNumber{.expected = "a finite number"};
inline constexpr Range kNotNegative{
    .expected = "a number of at least 0",
    .low = 0};
inline constexpr Range kPositive{
    .expected = "a number above 0",
    .low = 0,
    .excludes_low = true};
inline constexpr Range kBelowOne{
    .expected = "a number from 0 to below 1",
    .low = 0,
    .high = 1,
    .excludes_high = true};
inline constexpr Range kCount{
    .expected = "a whole number of at least 1",
    .low = 1};
inline constexpr Range kWholeNotNegative{
    .expected = "a whole number of at least 0",
    .low = 0};
inline constexpr Range kZeroOrOne{.expected = "0 or 1", .low = 0, .high = 1};
inline constexpr Range kStage{
    .expected = "a stage from 0 to 3",
    .low = 0,
    .high = 3};

using Scheduler = SchedulerConfig;
inline constexpr std::array<Word<Scheduler::Warmup>, 2> kWarmupWords{
    {{"log", Scheduler::Warmup::log}, {"linear", Scheduler::Warmup::linear}}};
inline constexpr std::array<Word<Scheduler::Type>, 5> kSchedulerWords{
    {{"LRRangeTest", Scheduler::Type::lr_range_test},
     {"OneCycle", Scheduler::Type::one_cycle},
     {"WarmupLR", Scheduler::Type::warmup_lr},
     {"WarmupDecayLR", Scheduler::Type::warmup_decay_lr},
     {"WarmupCosineLR", Scheduler::Type::warmup_cosine_lr}}};
inline constexpr std::array<Word<LibzeroConfig::OnPeerLost>, 2> kPeerLostWords{
    {{"continue", LibzeroConfig::OnPeerLost::resume},
     {"raise", LibzeroConfig::OnPeerLost::raise}}};
inline constexpr std::array<Word<LibzeroConfig::Accumulate>, 2>
    kAccumulateWords{
        {{"shard", LibzeroConfig::Accumulate::shard},
         {"full", LibzeroConfig::Accumulate::full}}};
inline constexpr std::array<Word<LibzeroConfig::OnNonfinite>, 2>
    kNonfiniteWords{
        {{"update", LibzeroConfig::OnNonfinite::update},
         {"raise", LibzeroConfig::OnNonfinite::raise}}};

// Below, `Owner` is the struct or the const struct.

template <class Visitor, class Owner>
void visit_batch_sizes(Visitor&& visit, Owner& config) {
  visit("train_batch_size", config.train_batch_size, kCount);
  visit(
      "train_micro_batch_size_per_gpu",
      config.train_micro_batch_size_per_gpu,
      kCount);
  visit(
      "gradient_accumulation_steps",
      config.gradient_accumulation_steps,
      kCount);
}

template <class Visitor, class Owner>
void visit_top_level(Visitor&& visit, Owner& config) {
  visit("gradient_clipping", config.gradient_clipping, kNotNegative);
  visit("prescale_gradients", config.prescale_gradients, kAnyNumber);
  visit(
      "gradient_predivide_factor", config.gradient_predivide_factor, kPositive);
  visit("steps_per_print", config.steps_per_print, kCount);
}

// The parameters of the optimizer's type.
template <class Visitor, class Owner>
void visit_optimizer(Visitor&& visit, Owner& optimizer) {
  visit("lr", optimizer.lr, kNotNegative);
  visit("weight_decay", optimizer.weight_decay, kNotNegative);
  switch (optimizer.type) {
    case OptimizerConfig::Type::adam:
      visit("betas", optimizer.betas, kBelowOne);
      visit("eps", optimizer.eps, kNotNegative);
      visit("bias_correction", optimizer.bias_correction, kAnyNumber);
      visit("adam_w_mode", optimizer.adam_w_mode, kAnyNumber);
      break;
    case OptimizerConfig::Type::sgd:
      visit("momentum", optimizer.momentum, kNotNegative);
      visit("dampening", optimizer.dampening, kAnyNumber);
      visit("nesterov", optimizer.nesterov, kAnyNumber);
      break;
  }
}

template <class Visitor, class Owner>
void visit_one_cycle(Visitor&& visit, Owner& cycle) {
  visit("cycle_min_lr", cycle.cycle_min_lr, kNotNegative);
  visit("cycle_max_lr", cycle.cycle_max_lr, kNotNegative);
  visit("decay_lr_rate", cycle.decay_lr_rate, kNotNegative);
  visit("cycle_first_step_size", cycle.cycle_first_step_size, kCount);
  visit(
      "cycle_second_step_size",
      cycle.cycle_second_step_size,
      kWholeNotNegative);
  visit(
      "cycle_first_stair_count",
      cycle.cycle_first_stair_count,
      kWholeNotNegative);
  visit(
      "cycle_second_stair_count",
      cycle.cycle_second_stair_count,
      kWholeNotNegative);
  visit("decay_step_size", cycle.decay_step_size, kWholeNotNegative);
  visit("cycle_momentum", cycle.cycle_momentum, kAnyNumber);
  visit("cycle_min_mom", cycle.cycle_min_mom, kBelowOne);
  visit("cycle_max_mom", cycle.cycle_max_mom, kBelowOne);
  visit("decay_mom_rate", cycle.decay_mom_rate, kAnyNumber);
}

// The parameters of the scheduler's type.
template <class Visitor, class Owner>
void visit_scheduler(Visitor&& visit, Owner& scheduler) {
  using Type = SchedulerConfig::Type;
  switch (scheduler.type) {
    case Type::none:
      return;
    case Type::lr_range_test:
      visit(
          "lr_range_test_min_lr", scheduler.lr_range_test_min_lr, kNotNegative);
      visit(
          "lr_range_test_step_size", scheduler.lr_range_test_step_size, kCount);
      visit(
          "lr_range_test_step_rate",
          scheduler.lr_range_test_step_rate,
          kNotNegative);
      visit(
          "lr_range_test_staircase",
          scheduler.lr_range_test_staircase,
          kAnyNumber);
      return;
    case Type::one_cycle:
      visit_one_cycle(visit, scheduler);
      return;
    case Type::warmup_lr:
    case Type::warmup_decay_lr:
      visit("warmup_min_lr", scheduler.warmup_min_lr, kNotNegative);
      visit("warmup_max_lr", scheduler.warmup_max_lr, kNotNegative);
      break;
    case Type::warmup_cosine_lr:
      visit("warmup_min_ratio", scheduler.warmup_min_ratio, kNotNegative);
      visit("cos_min_ratio", scheduler.cos_min_ratio, kNotNegative);
      break;
  }
  visit("warmup_num_steps", scheduler.warmup_num_steps, kCount);
  visit.word("warmup_type", scheduler.warmup_type, kWarmupWords);
  if (scheduler.type != Type::warmup_lr) {
    visit("total_num_steps", scheduler.total_num_steps, kCount);
  }
}

// All but the stage.
template <class Visitor, class Owner>
void visit_zero_optimization(Visitor&& visit, Owner& zero) {
  visit("reduce_bucket_size", zero.reduce_bucket_size, kCount);
  visit("overlap_comm", zero.overlap_comm, kAnyNumber);
  visit(
      "stage3_prefetch_bucket_size",
      zero.stage3_prefetch_bucket_size,
      kWholeNotNegative);
  visit(
      "stage3_param_persistence_threshold",
      zero.stage3_param_persistence_threshold,
      kWholeNotNegative);
  visit(
      "stage3_max_live_parameters",
      zero.stage3_max_live_parameters,
      kWholeNotNegative);
  visit("ignore_unused_parameters", zero.ignore_unused_parameters, kAnyNumber);
}

// All but clip_norm_type and the parameter groups.
template <class Visitor, class Owner>
void visit_libzero(Visitor&& visit, Owner& libzero) {
  visit("shared_memory", libzero.shared_memory, kAnyNumber);
  visit("gather_budget", libzero.gather_budget, kAnyNumber);
  visit("timeout_seconds", libzero.timeout_seconds, kPositive);
  visit(
      "progress_timeout_seconds", libzero.progress_timeout_seconds, kPositive);
  visit.word("on_peer_lost", libzero.on_peer_lost, kPeerLostWords);
  visit("redundancy", libzero.redundancy, kZeroOrOne);
  visit.word("accumulate", libzero.accumulate, kAccumulateWords);
  visit.word("on_nonfinite", libzero.on_nonfinite, kNonfiniteWords);
  visit(
      "consistency_check_every",
      libzero.consistency_check_every,
      kWholeNotNegative);
}

template <class Visitor, class Owner>
void visit_parameter_group(Visitor&& visit, Owner& group) {
  visit("match", group.match, kAnyNumber);
  visit("lr", group.lr, kNotNegative);
  visit("weight_decay", group.weight_decay, kNotNegative);
}

} // namespace zero::config

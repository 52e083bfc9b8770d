// Defines Config: how an Engine partitions, reduces and updates. It is
// DeepSpeed's JSON with the same keys, meanings and defaults, so that one file
// gives the same losses there and here; docs/configuration.md lists what
// differs. What only libzero has is under "libzero".
//
//   auto config = zero::Config::from_file("zero.json");
//   auto config =
//   zero::Config::from_json(R"({"zero_optimization":{"stage":2}})");
//
//   zero::Config config;                  // or by hand
//   config.zero_optimization.stage = 3;
//   config.optimizer.lr = 3e-4;
//
// All mistakes of a file are reported at once, each with its line.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

struct OptimizerConfig {
  enum class Type { sgd, adam };

  Type type = Type::adam; // "Adam", "AdamW" or "SGD"
  double lr = 1e-3;
  double weight_decay = 0;

  // Adam. Decoupled weight decay is AdamW, and the default, as in DeepSpeed.
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  bool bias_correction = true;
  bool adam_w_mode = true;

  // SGD, whose weight decay is L2.
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
};

// Settings of the parameters whose name matches; the first group that matches
// has a parameter, and what no group matches has the optimizer's own settings.
struct ParameterGroup {
  std::string match; // of the full name; * is any text, ? any character
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

struct SchedulerConfig {
  enum class Type {
    none,
    lr_range_test,
    one_cycle,
    warmup_lr,
    warmup_decay_lr,
    warmup_cosine_lr,
  };
  enum class Warmup { log, linear };

  Type type = Type::none;

  // LRRangeTest
  double lr_range_test_min_lr = 1e-3;
  int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1.0;
  bool lr_range_test_staircase = false;

  // OneCycle
  double cycle_min_lr = 0; // required in a file
  double cycle_max_lr = 0; // required in a file
  double decay_lr_rate = 0;
  int64_t cycle_first_step_size = 2000;
  std::optional<int64_t> cycle_second_step_size;
  int64_t cycle_first_stair_count = 0;
  std::optional<int64_t> cycle_second_stair_count;
  int64_t decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8;
  double cycle_max_mom = 0.9;
  double decay_mom_rate = 0;

  // WarmupLR, WarmupDecayLR, WarmupCosineLR
  double warmup_min_lr = 0;
  // The optimizer's lr unless given; a file's WarmupDecayLR has 0.001 then.
  std::optional<double> warmup_max_lr;
  int64_t warmup_num_steps = 1000;
  Warmup warmup_type = Warmup::log;
  int64_t total_num_steps = 0; // required by the last two
  double warmup_min_ratio = 0;
  double cos_min_ratio = 1e-4;
};

struct ZeroOptimizationConfig {
  int stage = 0;
  // Elements in a bucket of gradients, at most.
  int64_t reduce_bucket_size = 6'250'000; // 25 MB of float32
  // Whether gradients are reduced while backward runs, or after it.
  bool overlap_comm = true;
  // Stage 3: elements of parameters fetched ahead of need, at most.
  int64_t stage3_prefetch_bucket_size = 50'000'000;
  // Stage 3: parameters of fewer elements are never dropped.
  int64_t stage3_param_persistence_threshold = 0;
  // Stage 3: parameters present at once, at most, besides `gather_budget`.
  int64_t stage3_max_live_parameters = 1'000'000'000;
  // Whether a parameter without a gradient on any rank is left alone; if not,
  // it is an error.
  bool ignore_unused_parameters = true;
};

// A number of bytes, or a share of what all parameters take.
struct ByteBudget {
  std::optional<int64_t> bytes;
  double share = 0.25; // where `bytes` is not given
};

struct LibzeroConfig {
  enum class OnPeerLost { resume, raise }; // "continue", "raise"
  enum class Accumulate { shard, full };
  enum class OnNonfinite { update, raise };

  // What the ranks of one machine would each have a copy of exists once.
  bool shared_memory = true;
  // Stage 3: how much of parameters may be present beyond what is in use.
  ByteBudget gather_budget;
  // Those of init() unless given: 10 and 1800.
  std::optional<double> timeout_seconds; // heartbeat
  std::optional<double> progress_timeout_seconds;
  OnPeerLost on_peer_lost = OnPeerLost::resume;
  // Over several hosts: on how many other hosts there is a copy of what a host
  // alone has, 0 or 1. With one, the loss of a host is survived from memory.
  int64_t redundancy = 0;
  // Stages 2 and 3 with gradient accumulation. shard: every micro-step is
  // reduced, no rank keeps full gradients. full: one reduction at the boundary.
  Accumulate accumulate = Accumulate::shard;
  // When the norm of the gradients is no finite number. update: as torch does.
  // raise: a NonfiniteError on every rank, and parameters stay as they are.
  OnNonfinite on_nonfinite = OnNonfinite::update;
  // After so many updates, ranks compare what should be the same on all of
  // them; 0: never.
  int64_t consistency_check_every = 0;
  std::vector<ParameterGroup> parameter_groups;
  double clip_norm_type = 2; // 1, 2 or infinity ("inf")
};

// The three sizes of a batch, agreeing: train = micro x accumulation x ranks.
struct BatchSizes {
  int64_t train = 1;
  int64_t micro = 1;
  int64_t accumulation = 1;
};

struct Config {
  // Throws: ConfigError naming every mistake and its line; IoError.
  static Config from_file(const std::string& path);
  // `origin` is how messages call the text.
  static Config from_json(
      std::string_view text,
      const std::string& origin = "configuration");

  std::optional<int64_t> train_batch_size;
  std::optional<int64_t> train_micro_batch_size_per_gpu;
  std::optional<int64_t> gradient_accumulation_steps;

  double gradient_clipping = 1.0; // 0: none
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  std::optional<int64_t> steps_per_print;

  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  ZeroOptimizationConfig zero_optimization;
  LibzeroConfig libzero;

  // What is missing of the three sizes is worked out; 1 each if none is given.
  // Throws: ConfigError when they do not agree.
  BatchSizes batch_sizes(int num_ranks) const;

  // Throws: ConfigError naming every field whose value makes no sense, by its
  // key in a file.
  void validate() const;

  // What from_json() reads as this configuration. Every key is there, but for
  // those of the schedules and optimizers that are not chosen.
  // Throws: ConfigError as validate() does.
  std::string to_json() const;
};

} // namespace zero

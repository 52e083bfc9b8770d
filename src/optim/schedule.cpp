#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace zero::optim {

namespace {

// DeepSpeed cycles momentum only where an optimizer has betas.
bool cycles_momentum(
    const SchedulerConfig& config,
    const OptimizerConfig& optimizer) {
  return config.type == SchedulerConfig::Type::one_cycle &&
      config.cycle_momentum && optimizer.type == OptimizerConfig::Type::adam;
}

class Constant final : public Schedule {
 public:
  Values at(int64_t /*step*/, double base_lr) const override {
    return {.lr = base_lr};
  }
};

class RangeTest final : public Schedule {
 public:
  explicit RangeTest(const SchedulerConfig& config) : config_(config) {
    ZERO_CHECK(config.lr_range_test_step_size > 0);
  }

  Values at(int64_t step, double /*base_lr*/) const override {
    double interval = static_cast<double>(step) /
        static_cast<double>(config_.lr_range_test_step_size);
    if (config_.lr_range_test_staircase) {
      interval = std::floor(interval);
    }
    return {
        .lr = config_.lr_range_test_min_lr *
            (1 + config_.lr_range_test_step_rate * interval)};
  }

 private:
  SchedulerConfig config_;
};

class OneCycle final : public Schedule {
 public:
  OneCycle(const SchedulerConfig& config, const OptimizerConfig& optimizer)
      : config_(config),
        has_momentum_(cycles_momentum(config, optimizer)),
        up_(static_cast<double>(config.cycle_first_step_size)),
        down_(static_cast<double>(config.cycle_second_step_size.value_or(
            config.cycle_first_step_size))) {
    ZERO_CHECK(up_ > 0 && down_ >= 0, up_, " and ", down_);
  }

  Values at(int64_t step, double /*base_lr*/) const override {
    if (step <= 0) {
      return values(config_.cycle_min_lr, config_.cycle_min_mom);
    }
    const auto position = static_cast<double>(step);
    return position <= up_ + down_ ? in_cycle(position)
                                   : after_cycle(position - (up_ + down_));
  }

 private:
  Values values(double lr, double momentum) const {
    return {.lr = lr, .momentum = has_momentum_ ? momentum : -1};
  }

  Values in_cycle(double position) const {
    const double height = height_at(position);
    return values(
        config_.cycle_min_lr +
            (config_.cycle_max_lr - config_.cycle_min_lr) * height,
        config_.cycle_max_mom -
            (config_.cycle_max_mom - config_.cycle_min_mom) * height);
  }

  // From 0 up to 1 and back to 0, perhaps by stairs.
  double height_at(double position) const {
    // In fractions of the cycle, as DeepSpeed computes it, for the last bit.
    const double total = up_ + down_;
    const double peak = up_ / total;
    const double x = 1 + position / total - std::floor(1 + position / total);
    const bool rises = x <= peak;
    const auto stairs = static_cast<double>(
        rises ? config_.cycle_first_stair_count
              : config_.cycle_second_stair_count.value_or(
                    config_.cycle_first_stair_count));
    if (stairs > 0) {
      // In steps: a fraction just below a stair would fall off it.
      const double within = std::fmod(position, total);
      const double climbed = within <= up_ ? within * stairs / up_
                                           : (total - within) * stairs / down_;
      return std::floor(climbed) / stairs;
    }
    return rises ? x / peak : (x - 1) / (peak - 1);
  }

  Values after_cycle(double position) const {
    double lr = config_.cycle_min_lr;
    double momentum = config_.cycle_max_mom;
    if (config_.decay_step_size != 0) {
      const double interval =
          position / static_cast<double>(config_.decay_step_size);
      lr /= 1 + config_.decay_lr_rate * interval;
      momentum *= 1 + config_.decay_mom_rate * interval;
    }
    return values(lr, momentum);
  }

  SchedulerConfig config_;
  bool has_momentum_;
  double up_; // steps
  double down_;
};

// How far a warm-up has come, from 0 to 1. It takes two steps at least, and is
// asked for steps before its end only.
class WarmUp {
 public:
  explicit WarmUp(const SchedulerConfig& config)
      : is_linear_(config.warmup_type == SchedulerConfig::Warmup::linear),
        num_steps_(std::max<int64_t>(2, config.warmup_num_steps)) {}

  int64_t num_steps() const {
    return num_steps_;
  }
  double at(int64_t step) const {
    const auto total = static_cast<double>(num_steps_);
    const auto done = static_cast<double>(step);
    return is_linear_ ? done / total : 1 / std::log(total) * std::log(done + 1);
  }

 private:
  bool is_linear_;
  int64_t num_steps_;
};

class WarmupLr final : public Schedule {
 public:
  explicit WarmupLr(const SchedulerConfig& config)
      : config_(config), warm_up_(config) {
    // The one default that depends on the type.
    if (decays() && !config_.warmup_max_lr) {
      config_.warmup_max_lr = 1e-3;
    }
  }

  Values at(int64_t step, double base_lr) const override {
    const double least = config_.warmup_min_lr;
    const double most = config_.warmup_max_lr.value_or(base_lr);
    // See Note [When DeepSpeed's schedules begin].
    return {
        .lr = step <= 0 ? least : least + (most - least) * share_at(step - 1)};
  }

 private:
  bool decays() const {
    return config_.type == SchedulerConfig::Type::warmup_decay_lr;
  }

  double share_at(int64_t step) const {
    if (step < warm_up_.num_steps()) {
      return warm_up_.at(step);
    }
    if (!decays()) {
      return 1;
    }
    const auto left = static_cast<double>(config_.total_num_steps - step);
    const auto all = static_cast<double>(
        std::max<int64_t>(1, config_.total_num_steps - warm_up_.num_steps()));
    return std::max(0.0, left / all);
  }

  SchedulerConfig config_;
  WarmUp warm_up_;
};

class WarmupCosineLr final : public Schedule {
 public:
  explicit WarmupCosineLr(const SchedulerConfig& config)
      : config_(config), warm_up_(config) {}

  Values at(int64_t step, double base_lr) const override {
    // See Note [When DeepSpeed's schedules begin].
    return {.lr = step <= 0 ? 0 : base_lr * ratio_at(step - 1)};
  }

 private:
  double ratio_at(int64_t step) const {
    if (step < warm_up_.num_steps()) {
      const double least = config_.warmup_min_ratio;
      return least + warm_up_.at(step) * (1 - least);
    }
    // One step further than WarmupDecayLR would say.
    const auto done = static_cast<double>(step - warm_up_.num_steps() + 1);
    const auto all = static_cast<double>(
        std::max<int64_t>(1, config_.total_num_steps - warm_up_.num_steps()));
    const double progress = std::min(1.0, done / all);
    const double height = (1 + std::cos(std::numbers::pi * progress)) / 2;
    const double least = config_.cos_min_ratio;
    return std::max(0.0, least + (1 - least) * height);
  }

  SchedulerConfig config_;
  WarmUp warm_up_;
};

} // namespace

std::unique_ptr<Schedule> Schedule::make(
    const SchedulerConfig& config,
    const OptimizerConfig& optimizer) {
  using Type = SchedulerConfig::Type;
  switch (config.type) {
    case Type::none:
      break;
    case Type::lr_range_test:
      return std::make_unique<RangeTest>(config);
    case Type::one_cycle:
      return std::make_unique<OneCycle>(config, optimizer);
    case Type::warmup_lr:
    case Type::warmup_decay_lr:
      return std::make_unique<WarmupLr>(config);
    case Type::warmup_cosine_lr:
      return std::make_unique<WarmupCosineLr>(config);
  }
  return std::make_unique<Constant>();
}

OptimizerConfig with_schedule(
    const OptimizerConfig& optimizer,
    const SchedulerConfig& config) {
  OptimizerConfig result = optimizer;
  if (cycles_momentum(config, optimizer)) {
    result.betas[1] = 0.99;
  }
  return result;
}

} // namespace zero::optim

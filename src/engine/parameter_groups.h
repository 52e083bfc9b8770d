// Defines ParameterGroups: which learning rate and weight decay each parameter
// has, by the patterns of the configuration and the schedule.
#pragma once

#include <zero/config.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/schedule.h"
#include "shard/partition.h"

namespace zero::engine {

class ParameterGroups {
 public:
  struct Settings {
    double lr = 0;
    double weight_decay = 0;
    double momentum = -1; // negative: the optimizer's own
  };

  // `all` are the module's parameters, trained or not.
  // Throws: ConfigError naming every pattern that matches none.
  ParameterGroups(
      const Config& config,
      const std::vector<shard::Parameter>& all);

  // Its parameters are trained; it is the next partition of group_of().
  void add(const shard::Partition& partition);

  int num_groups() const {
    return static_cast<int>(groups_.size());
  }
  int group_of(int partition, int parameter) const {
    return membership_[static_cast<size_t>(partition)]
                      [static_cast<size_t>(parameter)];
  }

  // For the update before which there were `step` others.
  Settings settings(int group, int64_t step) const;

  // The rate of the parameters that no pattern matches, for that update.
  double lr(int64_t step) const;

  // Replaces the configured rate. Throws: ConfigError if there is no such group
  // or the rate is not a number >= 0.
  void set_lr(double lr);
  void set_lr(int group, double lr);
  // Those that were set for the same groups before.
  void take_rates(const ParameterGroups& before) {
    groups_ = before.groups_;
    set_rates_ = before.set_rates_;
  }
  // Those that were set, by group.
  std::vector<std::optional<double>> set_rates() const {
    return set_rates_;
  }

 private:
  int group_of(const shard::Parameter& parameter) const;

  std::vector<Settings> groups_; // as configured; the last one is the rest
  std::vector<std::optional<double>> set_rates_; // by group
  std::vector<ParameterGroup> patterns_; // of all groups but the last
  std::vector<std::vector<int>> membership_; // by partition, parameter
  std::unique_ptr<optim::Schedule> schedule_;
};

} // namespace zero::engine

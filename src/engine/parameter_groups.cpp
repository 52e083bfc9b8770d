#include "engine/parameter_groups.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "optim/glob.h"

namespace zero::engine {

ParameterGroups::ParameterGroups(
    const Config& config,
    const std::vector<shard::Parameter>& all)
    : patterns_(config.libzero.parameter_groups),
      schedule_(optim::Schedule::make(config.scheduler, config.optimizer)) {
  for (const auto& pattern : patterns_) {
    groups_.push_back(
        {pattern.lr.value_or(config.optimizer.lr),
         pattern.weight_decay.value_or(config.optimizer.weight_decay)});
  }
  groups_.push_back({config.optimizer.lr, config.optimizer.weight_decay});
  set_rates_.resize(groups_.size());

  std::vector<bool> used(groups_.size());
  for (const auto& parameter : all) {
    used[static_cast<size_t>(group_of(parameter))] = true;
  }
  std::string unused;
  for (size_t group = 0; group < patterns_.size(); ++group) {
    if (!used[group]) {
      unused += c10::str("\n  '", patterns_[group].match, "'");
    }
  }
  if (!unused.empty()) {
    throw ConfigError(c10::str(
        "libzero.parameter_groups: these match no parameter that no earlier "
        "group has:",
        unused,
        "\nFix: compare them with the module's named_parameters()"));
  }
}

int ParameterGroups::group_of(const shard::Parameter& parameter) const {
  const auto found = std::find_if(
      patterns_.begin(), patterns_.end(), [&](const ParameterGroup& pattern) {
        return std::any_of(
            parameter.names.begin(),
            parameter.names.end(),
            [&](const std::string& name) {
              return optim::matches(pattern.match, name);
            });
      });
  return static_cast<int>(found - patterns_.begin());
}

void ParameterGroups::add(const shard::Partition& partition) {
  auto& members = membership_.emplace_back();
  for (const auto& parameter : partition.parameters()) {
    members.push_back(group_of(parameter));
  }
}

ParameterGroups::Settings ParameterGroups::settings(int group, int64_t step)
    const {
  Settings settings = groups_[static_cast<size_t>(group)];
  const auto scheduled = schedule_->at(step, settings.lr);
  settings.lr = scheduled.lr;
  settings.momentum = scheduled.momentum;
  return settings;
}

double ParameterGroups::lr(int64_t step) const {
  return settings(num_groups() - 1, step).lr;
}

void ParameterGroups::set_lr(double lr) {
  for (int group = 0; group < num_groups(); ++group) {
    set_lr(group, lr);
  }
}

void ParameterGroups::set_lr(int group, double lr) {
  if (group < 0 || group >= num_groups()) {
    throw ConfigError(c10::str(
        "set_lr: there is no group ",
        group,
        ": expected 0 to ",
        num_groups() - 1,
        ". Fix: count the groups of the configuration; the last is the rest"));
  }
  if (!(lr >= 0 && std::isfinite(lr))) {
    throw ConfigError(c10::str(
        "set_lr: expected a learning rate of 0 or more, got ",
        lr,
        ". Fix: pass one that is finite and not negative"));
  }
  groups_[static_cast<size_t>(group)].lr = lr;
  set_rates_[static_cast<size_t>(group)] = lr;
}

} // namespace zero::engine

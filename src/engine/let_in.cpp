// How an EngineState comes about on a newcomer, and what the others tell it for
// that. What they do themselves is what they do when ranks are lost
// (recover.cpp).
#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/tensor_memory.h"
#include "engine/engine_state.h"

namespace zero::engine {

EngineState::EngineState(
    const Newcomer& newcomer,
    const Handover& handover,
    std::vector<std::vector<shard::Parameter>> partitions,
    std::shared_ptr<comm::Group> group)
    : module_(newcomer.module),
      group_(std::move(group)),
      config_(newcomer.config),
      accumulation_steps_(handover.accumulation_steps),
      has_own_optimizer_(newcomer.optimizer != nullptr),
      optimizer_(optimizer_or_configured(newcomer.optimizer, config_)),
      num_states_(optimizer_->num_states()),
      global_step_(handover.global_step),
      round_(handover.round) {
  base::keep_large_tensors();
  for (size_t i = 0; i < partitions.size(); ++i) {
    base::failpoint("recovery.moment");
    add(make_partition(
        std::move(partitions[i]), handover.partitions[i].trainable));
  }
  make_training_parts();
  for (size_t i = 0; i < partitions_.size(); ++i) {
    const auto& parameters = handover.partitions[i].parameters;
    for (size_t j = 0; partitions_[i]->trainable() && j < parameters.size();
         ++j) {
      update_->set_num_updates(
          partitions_[i].get(), static_cast<int>(j), parameters[j].num_updates);
    }
  }
  for (size_t i = 0; i < handover.rates.size(); ++i) {
    if (handover.rates[i]) {
      groups_->set_lr(static_cast<int>(i), *handover.rates[i]);
    }
  }
}

Handover EngineState::handover() const {
  Handover handover{
      .round = round_,
      .global_step = global_step_,
      .accumulation_steps = accumulation_steps_,
      .num_states = num_states_,
      .partitions = {},
      .buffers = {},
      .rates = groups_->set_rates(),
      .config = config_.to_json()};
  for (const auto& partition : partitions_) {
    auto& told = handover.partitions.emplace_back();
    told.trainable = partition->trainable();
    for (int i = 0; i < partition->layout().num_parameters(); ++i) {
      told.parameters.push_back(told_of(partition->parameter(i)));
      told.parameters.back().num_updates =
          partition->trainable() ? update_->num_updates(partition.get(), i) : 0;
    }
  }
  for (const auto& buffer : buffers_of(*module_)) {
    handover.buffers.push_back(told_of(buffer));
  }
  return handover;
}

} // namespace zero::engine

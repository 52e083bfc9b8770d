// How a parameter that was frozen comes to be trained: the user sets its
// requires_grad, on any rank, and the next step takes it in.
//
// Note [Thawing]
// Ranks learn of it without talking: each says in shared memory what it has
// found before it closes the round, and reads what the others said afterwards.
// All then make the same new partitions, and reduce the gradients that have
// gathered in the parameters meanwhile.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine_state.h"

namespace zero::engine {

using shard::Parameter;
using shard::Partition;

void EngineState::watch_frozen() {
  thawing_ = std::make_unique<reduce::GradientFlags>(
      comm::make_window(group_, reduce::GradientFlags::bytes(frozen_)),
      0,
      frozen_);
}

void EngineState::say_what_thaws() {
  for (int i = 0; i < static_cast<int>(frozen_.size()); ++i) {
    const auto& parameters = frozen_[static_cast<size_t>(i)]->parameters();
    for (int number = 0; number < static_cast<int>(parameters.size());
         ++number) {
      if (parameters[static_cast<size_t>(number)].tensor.requires_grad()) {
        thawing_->set({i, number});
      }
    }
  }
}

// Collective, after the round was closed. False if there is nothing.
bool EngineState::take_in_what_thaws() {
  bool any = false;
  const auto frozen = frozen_; // it changes
  for (int i = 0; i < static_cast<int>(frozen.size()); ++i) {
    const auto& partition = *frozen[static_cast<size_t>(i)];
    std::vector<Parameter> thawed;
    std::vector<Parameter> kept;
    for (int number = 0; number < partition.layout().num_parameters();
         ++number) {
      auto& group = thawing_->any({i, number}) ? thawed : kept;
      group.push_back(partition.parameter(number));
    }
    if (!thawed.empty()) {
      any = true;
      thaw(partition, std::move(thawed), std::move(kept));
    }
  }
  if (any) {
    watch_frozen();
  }
  return any;
}

void EngineState::thaw(
    const Partition& old,
    std::vector<Parameter> thawed,
    std::vector<Parameter> kept) {
  if (gatherer_) {
    gatherer_->pause();
  }
  being_thawed_.from = &old;
  being_thawed_.to.push_back(make_partition(std::move(thawed), true));
  if (!kept.empty()) {
    being_thawed_.to.push_back(make_partition(std::move(kept), false));
  }
  for (const auto& part : being_thawed_.to) {
    std::vector<std::byte> values;
    take_values_of_rank_0(*part, [&](int number) {
      const auto& tensor = part->parameter(number).tensor;
      values.resize(tensor.nbytes());
      old.read(old.number_of(tensor), values.data()).bytes->wait();
      return values.data();
    });
  }
  barrier(); // the new ones are complete, and nobody reads the old one
  const auto* trained = being_thawed_.to.front().get();
  adopt_thawed();
  reducer_->add(trained);
  train(*trained);
  watch_gradients(*trained);
}

void EngineState::adopt_thawed() {
  const Partition* old = being_thawed_.from;
  std::vector<const Partition*> parts;
  for (auto& part : being_thawed_.to) {
    parts.push_back(&add(std::move(part)));
    take_storages(*parts.back());
  }
  if (gatherer_) {
    gatherer_->move_units(old, parts);
  }
  std::erase(frozen_, old);
  std::erase_if(
      partitions_, [&](const auto& each) { return each.get() == old; });
  being_thawed_ = {};
  ++num_thawed_;
}

} // namespace zero::engine

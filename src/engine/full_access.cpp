// How a user reads and writes whole parameters and gradients, and what an
// EngineState tells of itself.
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine_state.h"
#include "shard/storage.h"

namespace zero::engine {

using shard::Home;

EngineState::Place EngineState::place_of(const at::Tensor& tensor) const {
  for (const auto& partition : partitions_) {
    const int number = partition->number_of(tensor);
    if (number < 0) {
      continue;
    }
    Place place{.partition = partition.get(), .number = number};
    for (size_t index = 0; index < trainable_.size(); ++index) {
      if (trainable_[index] == partition.get()) {
        place.index = static_cast<int>(index);
      }
    }
    return place;
  }
  throw ConfigError(c10::str(
      base::rank_prefix(rank(), group_->size()),
      "a tensor of sizes ",
      tensor.sizes(),
      " is no parameter of the engine's module. Fix: pass what "
      "module.parameters() has"));
}

bool EngineState::is_parameter(const at::Tensor& tensor) const {
  for (const auto& partition : partitions_) {
    if (partition->number_of(tensor) >= 0) {
      return true;
    }
  }
  return false;
}

std::function<void()> EngineState::gather(
    const std::vector<at::Tensor>& tensors,
    Access access) {
  check_parameters();
  std::vector<Place> places;
  for (const auto& tensor : tensors) {
    places.push_back(place_of(tensor));
  }
  if (access == Access::write) {
    barrier(); // nobody computes with what is about to change
  }
  if (gatherer_) {
    for (const auto& tensor : tensors) {
      gatherer_->pin(tensor);
    }
  }
  if (access == Access::write) {
    for (const auto& place : places) {
      lend_a_copy(place);
    }
    barrier(); // everybody has read what rank 0 is about to change
  }
  return [this, tensors, places, access, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) {
      return; // the module has its parameters for itself again
    }
    if (access == Access::write) {
      for (const auto& place : places) {
        write_back(place);
      }
      barrier(); // everybody has what rank 0 wrote
      for (const auto& place : places) {
        tamper_check_.accept_values(place.partition->parameter(place.number));
      }
    }
    if (gatherer_) {
      for (const auto& tensor : tensors) {
        gatherer_->unpin(tensor);
      }
    }
  };
}

// Where there is one copy for all, only rank 0 writes to it; what the others
// write meanwhile goes nowhere.
void EngineState::lend_a_copy(const Place& place) const {
  const auto& tensor = place.partition->parameter(place.number).tensor;
  if (place.partition->parameter_home() != Home::once || rank() == 0 ||
      tensor.numel() == 0) {
    return;
  }
  auto memory = std::make_shared_for_overwrite<std::byte[]>(tensor.nbytes());
  std::memcpy(
      memory.get(), shard::flat_view(tensor).const_data_ptr(), tensor.nbytes());
  shard::point_at(tensor, memory.get(), memory);
}

// Rank 0's values become everybody's.
void EngineState::write_back(const Place& place) const {
  const auto& partition = *place.partition;
  const auto range = partition.layout().parameter(place.number);
  if (range.empty()) {
    return;
  }
  const auto& tensor = partition.parameter(place.number).tensor;
  auto* here =
      static_cast<std::byte*>(shard::flat_view(tensor).mutable_data_ptr());
  if (rank() == 0 && partition.parameter_home() == Home::shard) {
    partition.write(place.number, here);
  }
  barrier(); // rank 0 has written
  if (rank() == 0) {
    return;
  }
  switch (partition.parameter_home()) {
    case Home::once:
      shard::point_at(
          tensor,
          partition.parameter_at(rank(), range.begin, 0),
          partition.window());
      break;
    case Home::full:
      std::memcpy(
          here, partition.parameter_at(0, range.begin, 0), tensor.nbytes());
      break;
    default:
      partition.read(place.number, here);
  }
}

at::Tensor EngineState::full_gradient(const at::Tensor& tensor) const {
  const Place place = place_of(tensor);
  if (place.index < 0) {
    return {};
  }
  if (micro_step_ > 0 && !reducer_->has_reduced()) {
    throw ConfigError(c10::str(
        base::rank_prefix(rank(), group_->size()),
        "full_gradient: the gradient of '",
        place.partition->parameter(place.number).name(),
        "' is not reduced before the last of ",
        accumulation_steps_,
        " micro-batches. Fix: ask for it after that, before step()"));
  }
  return reducer_->full_gradient({place.index, place.number});
}

MemoryAccount EngineState::memory() const {
  MemoryAccount account;
  for (const auto& partition : partitions_) {
    account.parameters += partition->parameter_bytes();
    account.gradients += partition->gradient_bytes();
    account.optimizer += partition->state_bytes();
  }
  account.gradients += reducer_->waiting_bytes();
  account.buffers = reducer_->buffer_bytes();
  account.spilled = reducer_->spilled_bytes();
  if (gatherer_) {
    account.gathered = gatherer_->gathered_bytes();
    account.gathered_peak = gatherer_->gathered_peak_bytes();
  }
  return account;
}

EngineTraffic EngineState::traffic() const {
  EngineTraffic traffic;
  for (const CommOp op :
       {CommOp::reduce_scatter, CommOp::all_gather, CommOp::get}) {
    traffic.intra_node += group_->traffic()->get(op).bytes_received;
  }
  traffic.control = control_bytes_;
  return traffic;
}

void EngineState::reset_traffic() {
  group_->traffic()->reset();
  control_bytes_ = 0;
}

gather::GatherStatistics EngineState::statistics() const {
  return gatherer_ ? gatherer_->statistics() : gather::GatherStatistics{};
}

} // namespace zero::engine

// How a user reads and writes whole parameters and gradients, and what an
// EngineState tells of itself.
#include <algorithm>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "base/hash.h"
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
  std::vector<Place> places;
  // Writing is collective: what one rank cannot do, the others hear of.
  agree_if_writing(access, [&] {
    check_parameters();
    for (const auto& tensor : tensors) {
      places.push_back(place_of(tensor));
    }
    check_not_lent(places);
  });
  if (access == Access::write) {
    // Also: nobody computes any more with what is about to change.
    agree_on_order(places);
  }
  agree_if_writing(access, [&] { pin_all(tensors); });
  if (access == Access::write) {
    for (const auto& place : places) {
      lend_a_copy(place);
      tamper_check_.lend(place.partition->parameter(place.number));
      lent_.push_back(place);
    }
    barrier(); // everybody has read what rank 0 is about to change
  }
  return [this, tensors, places, access, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) {
      return; // the module has its parameters for itself again
    }
    if (access == Access::write) {
      for (const auto& place : places) { // first: a rank may be lost
        std::erase(lent_, place);
      }
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

void EngineState::agree_if_writing(
    Access access,
    const std::function<void()>& part) const {
  std::exception_ptr failure;
  try {
    part();
  } catch (const CommError&) {
    throw; // the ranks cannot talk
  } catch (const Error&) {
    failure = std::current_exception();
  }
  const bool all_could = access == Access::read || agree_on(failure == nullptr);
  if (failure) {
    std::rethrow_exception(failure);
  }
  if (!all_could) {
    throw ConfigError(c10::str(
        base::rank_prefix(rank(), group_->size()),
        "gather: another rank could not begin to write. Fix: see its own "
        "message"));
  }
}

void EngineState::pin_all(const std::vector<at::Tensor>& tensors) const {
  if (!gatherer_) {
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    try {
      gatherer_->pin(tensors[i]);
    } catch (...) {
      for (size_t pinned = 0; pinned < i; ++pinned) {
        gatherer_->unpin(tensors[pinned]);
      }
      throw;
    }
  }
}

// All ranks write back in the same order, each parameter once.
void EngineState::agree_on_order(std::vector<Place>& places) const {
  const auto key = [this](const Place& place) {
    size_t partition = 0;
    while (partitions_[partition].get() != place.partition) {
      ++partition;
    }
    return std::pair(partition, place.number);
  };
  std::sort(places.begin(), places.end(), [&](const auto& a, const auto& b) {
    return key(a) < key(b);
  });
  const auto same = [&](const auto& a, const auto& b) {
    return key(a) == key(b);
  };
  places.erase(std::unique(places.begin(), places.end(), same), places.end());
  std::string names;
  for (const auto& place : places) {
    names += place.partition->parameter(place.number).name() + "\n";
  }
  const auto hashes =
      group_->exchange(CommOp::all_gather, {base::hash_of(names)});
  const bool agreed = std::all_of(
      hashes.begin(), hashes.end(), [&](int64_t h) { return h == hashes[0]; });
  if (!agreed) {
    throw ConfigError(c10::str(
        base::rank_prefix(rank(), group_->size()),
        "gather: the ranks want to write different parameters; here ",
        places.size(),
        places.empty()
            ? std::string()
            : c10::str(
                  ", the first is '",
                  places[0].partition->parameter(places[0].number).name(),
                  "'"),
        ". Fix: pass the same parameters on every rank"));
  }
}

// Of two guards one would take the other one's copy away.
void EngineState::check_not_lent(const std::vector<Place>& places) const {
  for (const auto& place : places) {
    if (std::find(lent_.begin(), lent_.end(), place) != lent_.end()) {
      throw ConfigError(c10::str(
          base::rank_prefix(rank(), group_->size()),
          "gather: parameter '",
          place.partition->parameter(place.number).name(),
          "' is being written already. Fix: end the guard that writes it "
          "first, or write while that one lives"));
    }
  }
}

// Where there is one copy for all, only rank 0 writes to it; what the others
// write meanwhile goes nowhere.
void EngineState::lend_a_copy(const Place& place) const {
  const auto& storage = place.partition->parameter(place.number).storage;
  if (!place.partition->parameters_are_shared() || rank() == 0 ||
      storage.nbytes() == 0) {
    return;
  }
  auto memory = std::make_shared_for_overwrite<std::byte[]>(storage.nbytes());
  std::memcpy(memory.get(), storage.data(), storage.nbytes());
  shard::point_at(storage, memory.get(), memory);
}

// Rank 0's values become everybody's.
void EngineState::write_back(const Place& place) const {
  const auto& partition = *place.partition;
  const auto range = partition.layout().parameter(place.number);
  if (range.empty()) {
    return;
  }
  const auto& storage = partition.parameter(place.number).storage;
  auto* here = static_cast<std::byte*>(storage.mutable_data());
  if (!group_->reach().is_one_host()) {
    spread(partition, place.number, here);
  } else if (rank() == 0 && partition.parameter_home() == Home::shard) {
    partition.write(place.number, here);
  }
  barrier(); // rank 0 has written
  if (rank() == 0) {
    return;
  }
  switch (partition.parameter_home()) {
    case Home::sparse:
      if (rank() == group_->leader_here()) {
        partition.read_missing(place.number).bytes->wait();
      }
      [[fallthrough]];
    case Home::once:
      shard::point_at(
          storage,
          partition.parameter_at(rank(), range.begin, 0),
          partition.window());
      break;
    case Home::full:
      if (group_->reach().is_one_host()) {
        std::memcpy(
            here, partition.parameter_at(0, range.begin, 0), storage.nbytes());
      }
      break;
    default:
      partition.read(place.number, here).bytes->wait();
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
    account.copies += partition->copy_bytes();
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
  traffic.inter_node = group_->traffic()->from_other_hosts();
  traffic.intra_node -= traffic.inter_node;
  traffic.control = control_bytes_;
  traffic.copies = copied_bytes_;
  return traffic;
}

void EngineState::reset_traffic() {
  group_->traffic()->reset();
  control_bytes_ = 0;
  copied_bytes_ = 0;
}

gather::GatherStatistics EngineState::statistics() const {
  return gatherer_ ? gatherer_->statistics() : gather::GatherStatistics{};
}

} // namespace zero::engine

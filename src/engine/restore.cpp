// How an EngineState takes on what was saved: as if an update had made it.
#include <ATen/ops/empty.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine_state.h"

namespace zero::engine {

std::string EngineState::prefix() const {
  return base::rank_prefix(rank(), group_->size());
}

std::vector<shard::Parameter> EngineState::buffers() const {
  return buffers_of(*module_);
}

int64_t EngineState::num_updates(const shard::Partition& partition, int number)
    const {
  return partition.trainable() ? update_->num_updates(&partition, number) : 0;
}

void EngineState::set_num_updates(
    const shard::Partition& partition,
    int number,
    int64_t count) {
  update_->set_num_updates(&partition, number, count);
}

void EngineState::set_progress(int64_t global_step) {
  global_step_ = global_step;
}

void EngineState::check_between_rounds(const char* call) const {
  check_parameters();
  check_nothing_lent();
  if (micro_step_ != 0) {
    throw ConfigError(c10::str(
        prefix(),
        call,
        ": ",
        micro_step_,
        " of the round's ",
        accumulation_steps_,
        " micro-batches are done. Fix: call it after the step() that updates"));
  }
}

void EngineState::restore(const Restored& restored) {
  std::exception_ptr failure;
  const auto attempt = [&](const std::function<void()>& part) {
    try {
      part();
    } catch (const CommError&) {
      throw;
    } catch (...) {
      failure = std::current_exception();
    }
  };
  barrier(); // nobody computes any more
  reducer_->discard();
  micro_step_ = 0;
  if (gatherer_) {
    gatherer_->pause();
  }
  attempt(restored.own_slices);
  send_updated();
  send_copies();
  attempt([&] { restore_frozen(restored); });
  if (rank() == 0) {
    attempt(restored.buffers);
  }
  buffers_->offer(round_);
  barrier(); // everybody has written
  take_updated();
  buffers_->take(round_);
  for (const auto& parameter : all_parameters()) {
    parameter.tensor.unsafeGetTensorImpl()->bump_version();
  }
  tamper_check_.accept_all();
  barrier(); // everybody has read
  if (gatherer_) {
    gatherer_->resume();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void EngineState::restore_frozen(const Restored& restored) const {
  std::exception_ptr failure;
  for (const auto* partition : frozen_) {
    std::vector<std::byte> values;
    take_values_of_rank_0(*partition, [&](int number) -> const std::byte* {
      if (rank() != 0) {
        return nullptr;
      }
      const auto& parameter = partition->parameter(number);
      values.assign(parameter.storage.nbytes(), std::byte{0});
      try {
        restored.frozen(parameter, values.data());
      } catch (...) { // the others wait for what comes next
        failure = std::current_exception();
      }
      return values.data();
    });
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

} // namespace zero::engine

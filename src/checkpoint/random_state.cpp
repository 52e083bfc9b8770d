#include "checkpoint/random_state.h"

#include <ATen/Context.h>

#include <mutex>

namespace zero::checkpoint {

at::Tensor random_state() {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

bool set_random_state(const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  if (!state.defined() || state.numel() != generator.get_state().numel()) {
    return false;
  }
  generator.set_state(state);
  return true;
}

std::string optimizer_name(const engine::EngineState& state) {
  if (state.has_own_optimizer()) {
    return "the program's own";
  }
  return state.config().optimizer.type == OptimizerConfig::Type::sgd ? "SGD"
                                                                     : "Adam";
}

} // namespace zero::checkpoint

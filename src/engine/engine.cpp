#include <zero/engine.h>

#include "base/error.h"
#include "engine/engine_state.h"

namespace zero {

GatherGuard::GatherGuard(std::function<void()> end) : end_(std::move(end)) {}

GatherGuard::GatherGuard(GatherGuard&& other) noexcept
    : end_(std::exchange(other.end_, nullptr)) {}

GatherGuard::~GatherGuard() {
  try {
    release();
  } catch (const std::exception&) {
    // A rank is lost; the next call of the engine says so.
  }
}

void GatherGuard::release() {
  if (auto end = std::exchange(end_, nullptr)) {
    end();
  }
}

Engine::Engine(
    const World& world,
    std::shared_ptr<torch::nn::Module> module,
    const Config& config,
    std::shared_ptr<Optimizer> optimizer)
    : state_(std::make_unique<engine::EngineState>(
          world,
          std::move(module),
          config,
          std::move(optimizer))) {}

Engine::~Engine() = default;

void Engine::backward(const at::Tensor& loss) {
  state_->backward(loss);
}

StepResult Engine::step() {
  return state_->step();
}

StepResult Engine::run(const std::function<at::Tensor(int64_t)>& forward) {
  StepResult result;
  do {
    // A round that an exception has cut short goes on where it stopped.
    for (int64_t i = state_->micro_step(); i < state_->accumulation_steps();
         ++i) {
      backward(forward(i));
      result = step();
    }
  } while (result.abandoned);
  return result;
}

void Engine::zero_grad() {
  state_->zero_grad();
}

void Engine::join() {
  state_->join();
}

int64_t Engine::global_step() const {
  return state_->global_step();
}

double Engine::lr() const {
  return state_->groups().lr(state_->global_step());
}

void Engine::set_lr(double lr) {
  state_->groups().set_lr(lr);
}

void Engine::set_lr(int group, double lr) {
  state_->groups().set_lr(group, lr);
}

MemoryAccount Engine::memory() const {
  return state_->memory();
}

EngineTraffic Engine::traffic() const {
  return state_->traffic();
}

void Engine::reset_traffic() {
  state_->reset_traffic();
}

GatherGuard Engine::gather(torch::nn::Module& module, Access access) {
  return gather(module.parameters(), access);
}

GatherGuard Engine::gather(
    const std::vector<at::Tensor>& parameters,
    Access access) {
  return GatherGuard(state_->gather(parameters, access));
}

at::Tensor Engine::full_gradient(const at::Tensor& parameter) const {
  return state_->full_gradient(parameter);
}

} // namespace zero

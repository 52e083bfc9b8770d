#include <zero/engine.h>

#include "base/error.h"
#include "engine/succession.h"

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
    : succession_(std::make_unique<engine::Succession>(
          world,
          std::move(module),
          config,
          std::move(optimizer))) {}

Engine::~Engine() = default;

void Engine::backward(const at::Tensor& loss) {
  succession_->backward(loss);
}

StepResult Engine::step() {
  return succession_->step();
}

StepResult Engine::run(const std::function<at::Tensor(int64_t)>& forward) {
  StepResult result;
  do {
    // A round that an exception has cut short goes on where it stopped. When
    // ranks are lost the number of micro-batches may change.
    result = {};
    for (int64_t i = succession_->state().micro_step();
         i < accumulation_steps() && !result.abandoned;
         ++i) {
      at::Tensor loss;
      try {
        loss = forward(i);
      } catch (const std::exception&) {
        // Parameters that another host had may not have come.
        if (succession_->state().group()->lost_ranks().empty()) {
          throw;
        }
        recover();
        result.abandoned = true;
        break;
      }
      backward(loss);
      result = step();
    }
  } while (result.abandoned);
  return result;
}

void Engine::zero_grad() {
  succession_->zero_grad();
}

void Engine::join() {
  succession_->join();
}

int64_t Engine::global_step() const {
  return succession_->state().global_step();
}

int64_t Engine::accumulation_steps() const {
  return succession_->state().accumulation_steps();
}

void Engine::set_accumulation_steps(int64_t steps) {
  succession_->state().set_accumulation_steps(steps);
}

void Engine::recover() {
  succession_->recover();
}

const std::vector<Recovery>& Engine::recoveries() const {
  return succession_->recoveries();
}

double Engine::lr() const {
  return succession_->state().groups().lr(succession_->state().global_step());
}

void Engine::set_lr(double lr) {
  succession_->state().groups().set_lr(lr);
}

void Engine::set_lr(int group, double lr) {
  succession_->state().groups().set_lr(group, lr);
}

MemoryAccount Engine::memory() const {
  return succession_->state().memory();
}

EngineTraffic Engine::traffic() const {
  return succession_->state().traffic();
}

void Engine::reset_traffic() {
  succession_->state().reset_traffic();
}

GatherGuard Engine::gather(torch::nn::Module& module, Access access) {
  return gather(module.parameters(), access);
}

GatherGuard Engine::gather(
    const std::vector<at::Tensor>& parameters,
    Access access) {
  return GatherGuard(succession_->state().gather(parameters, access));
}

at::Tensor Engine::full_gradient(const at::Tensor& parameter) const {
  return succession_->state().full_gradient(parameter);
}

} // namespace zero

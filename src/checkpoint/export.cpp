// How an engine's module becomes a file that other programs read.
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <zero/engine.h>

#include <exception>

#include "base/error.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/succession.h"

namespace zero {

namespace {

// Under every name that the module knows a tensor by.
std::vector<std::pair<std::string, at::Tensor>> named_tensors(
    const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : module.named_parameters()) {
    tensors.emplace_back(item.key(), item.value());
  }
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) {
      tensors.emplace_back(item.key(), item.value());
    }
  }
  return tensors;
}

void write_all(engine::EngineState& state, const std::string& path) {
  const auto tensors = named_tensors(state.module());
  std::vector<checkpoint::TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  checkpoint::SafetensorsWriter writer(path, entries);
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    // One at a time: never more than the largest is gathered.
    const auto end = state.is_parameter(tensor)
        ? state.gather({tensor}, Access::read)
        : std::function<void()>([] {});
    {
      const at::Tensor whole = tensor.detach().contiguous();
      writer.write(whole.const_data_ptr(), whole.nbytes());
    }
    end();
  }
  writer.commit();
}

} // namespace

void Engine::export_safetensors(const std::string& path) const {
  auto& state = succession_->state();
  state.check_parameters();
  // Every rank gets to know whether it worked.
  std::exception_ptr failure;
  if (state.rank() == 0) {
    try {
      write_all(state, path);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  const bool written = state.agree_on(failure == nullptr);
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  if (!written) {
    throw IoError(c10::str(
        "rank 0 could not write '",
        path,
        "'. Fix: see its own message, which says why"));
  }
}

} // namespace zero

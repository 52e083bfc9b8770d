#include "tasks/nonfinite.h"

#include <ATen/ops/isfinite.h>
#include <torch/csrc/autograd/autograd.h>

#include "tasks/together.h"

namespace zero::tasks {

namespace {

bool are_finite(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && !at::isfinite(tensor).all().item<bool>()) {
      return false;
    }
  }
  return true;
}

} // namespace

std::vector<int> ranks_with_nonfinite_gradients(
    const World& world,
    const std::vector<at::Tensor>& parameters,
    const std::function<at::Tensor()>& next_loss) {
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.requires_grad()) {
      trained.push_back(parameter);
    }
  }
  bool is_finite = true;
  for (at::Tensor loss = next_loss(); loss.defined(); loss = next_loss()) {
    is_finite = is_finite &&
        are_finite(torch::autograd::grad(
            {loss},
            trained,
            /*grad_outputs=*/{},
            /*retain_graph=*/false,
            /*create_graph=*/false,
            /*allow_unused=*/true));
  }
  std::vector<int> ranks;
  const auto rows = exchange_rows(world, {is_finite ? 0.0 : 1.0});
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank][0] != 0) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

} // namespace zero::tasks

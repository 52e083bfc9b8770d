// Defines how the ranks are found whose gradients are not finite: once they are
// reduced, nobody can tell any more whose they were.
#pragma once

#include <ATen/core/Tensor.h>
#include <zero/world.h>

#include <functional>
#include <vector>

namespace zero::tasks {

// Collective. Computes gradients of every rank's losses again, apart from any
// engine's, and returns the ranks that have some that are not finite.
// `next_loss` gives this rank's losses one by one, and in the end an undefined
// one.
std::vector<int> ranks_with_nonfinite_gradients(
    const World& world,
    const std::vector<at::Tensor>& parameters,
    const std::function<at::Tensor()>& next_loss);

} // namespace zero::tasks

// Defines SGD with momentum. The engine makes one by the configuration and
// calls update() with its shards; several threads may, with different slices.
//
//   auto optimizer = make_sgd(config.optimizer);
//   optimizer->update({p, g, {buffer}, /*step=*/1, /*lr=*/0.1});
//
// The numbers are those of torch::optim::SGD; see Note [Same bits everywhere].
#pragma once

#include <zero/config.h>
#include <zero/optimizer.h>

#include <memory>

namespace zero::optim {

// With the momentum, dampening and nesterov of `config`. Has one state if there
// is momentum, else none. At step 1 the buffer becomes the gradient,
// undampened.
std::shared_ptr<Optimizer> make_sgd(const OptimizerConfig& config);

} // namespace zero::optim

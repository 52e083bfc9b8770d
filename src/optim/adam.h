// Defines Adam and AdamW. The engine makes one by the configuration and calls
// update() with its shards; several threads may, with different slices.
//
//   auto optimizer = make_adam(config.optimizer);
//   optimizer->update({p, g, {m, v}, /*step=*/1, /*lr=*/1e-3});
//
// The numbers are those of torch::optim::Adam and AdamW; see Note [Same bits
// everywhere]. Parameters in half precision are read, updated in float and
// rounded once.
#pragma once

#include <zero/config.h>
#include <zero/optimizer.h>

#include <memory>

namespace zero::optim {

// With the betas, eps, bias_correction and adam_w_mode of `config`; learning
// rate and weight decay are the slice's, and so is beta1 where it has a
// momentum.
std::shared_ptr<Optimizer> make_adam(const OptimizerConfig& config);

} // namespace zero::optim

// Defines the collectives that look where their tensors are.
//
// Note [In place]
// A large collective begins with every rank saying where its tensor is. If all
// of them are in one window, it goes on in place (in_place.h); if not, through
// the slots (collectives.h). Ranks need not agree beforehand, so a tensor in a
// window is a tensor like any other, only faster. All ranks decide by the same
// facts, so alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "comm/shm/group.h"
#include "comm/shm/operation.h"

namespace zero::comm {

std::shared_ptr<Operation> all_reduce(
    Group& group,
    const at::Tensor& tensor,
    ReduceOp op);

std::shared_ptr<Operation> reduce_scatter(
    Group& group,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op);

std::shared_ptr<Operation> all_gather(
    Group& group,
    const at::Tensor& output,
    const at::Tensor& input);

std::shared_ptr<Operation> broadcast(
    Group& group,
    const at::Tensor& tensor,
    int root);

} // namespace zero::comm

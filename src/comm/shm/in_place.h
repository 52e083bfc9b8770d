// Defines collectives on tensors that lie in windows: ranks read each other's
// tensors where they are, so that every byte is copied once, not twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/shm/collective.h"

namespace zero::comm {

// The addresses of every rank's tensor.
using Tensors = std::vector<std::byte*>;

// The first tensor given is this rank's own.
std::shared_ptr<Operation> all_reduce_in_place(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op,
    Tensors tensors);

// `tensors` are the whole inputs.
std::shared_ptr<Operation> reduce_scatter_in_place(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op,
    Tensors tensors);

// `tensors` are the chunks.
std::shared_ptr<Operation> all_gather_in_place(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    Tensors tensors);

std::shared_ptr<Operation> broadcast_in_place(
    CollectiveContext context,
    const at::Tensor& tensor,
    int root,
    Tensors tensors);

} // namespace zero::comm

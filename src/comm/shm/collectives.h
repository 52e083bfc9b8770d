// Defines how to make each collective. Tensors are checked already: contiguous,
// on the CPU, of a supported type, of the sizes communicator.h asks for.
//
// Who reads what, and so the bytes that are counted, for N ranks, a buffer of S
// bytes and rank's chunk of C:
//   all_reduce      (N-1) C + S - C, or (N-1) S for a small one
//   reduce_scatter  (N-1) C
//   all_gather      S - C
//   broadcast       S, and 0 on the root
//   all_to_all      (N-1) C
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "comm/shm/collective.h"

namespace zero::comm {

std::shared_ptr<Operation> make_all_reduce(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op);

// `output` is the chunk; it may lie in its place in `input`.
std::shared_ptr<Operation> make_reduce_scatter(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op);

// `input` is the chunk; it may lie in its place in `output`. `name` is what the
// user called, where that is made of it.
std::shared_ptr<Operation> make_all_gather(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    CommOp name = CommOp::all_gather);

std::shared_ptr<Operation> make_broadcast(
    CollectiveContext context,
    const at::Tensor& tensor,
    int root);

// `output` may be `input`.
std::shared_ptr<Operation> make_all_to_all(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input);

std::shared_ptr<Operation> make_barrier(CollectiveContext context);

} // namespace zero::comm

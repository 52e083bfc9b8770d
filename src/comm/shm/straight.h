// Defines collectives of ranks that are each alone on their host: what goes
// between them goes straight from tensor to tensor (Note [Passages]), where
// through slots every byte would be copied twice more.
//
// A rank says that it awaits the others' bytes when it begins, and lets go of
// its own when it knows that all have called the same. It is complete when it
// has all it awaits and the others have what they await of it, so that its
// tensor may change then.
//
// Sums are those that go through slots, in the order of the ranks, bit by bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "comm/shm/collective.h"

namespace zero::comm {

// Whether a collective on a buffer of so many bytes, the same on all ranks,
// goes so.
bool goes_straight(const CollectiveContext& context, int64_t bytes);

// As their namesakes in comm/shm/collectives.h.
std::shared_ptr<Operation> make_straight_all_reduce(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op);
std::shared_ptr<Operation> make_straight_reduce_scatter(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op);
std::shared_ptr<Operation> make_straight_all_gather(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    CommOp name);
std::shared_ptr<Operation> make_straight_broadcast(
    CollectiveContext context,
    const at::Tensor& tensor,
    int root);
std::shared_ptr<Operation> make_straight_all_to_all(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input);

} // namespace zero::comm

// Defines reductions over several hosts.
//
// Note [Joining]
// Of the part that a rank owns, one rank of each host, the owner's counterpart
// there, takes the sum over its host in the order of the ranks, and sends it to
// the owner's host: a part goes over the wire once for each host. The owner
// adds these up in the order of the hosts. So the bits do not depend on timing,
// only on which rank is where.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "comm/shm/collective.h"

namespace zero::comm {

// As their namesakes in comm/shm/collectives.h.
std::shared_ptr<Operation> make_joined_all_reduce(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op);
std::shared_ptr<Operation> make_joined_reduce_scatter(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op);

} // namespace zero::comm

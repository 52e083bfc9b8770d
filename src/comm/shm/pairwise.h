// Defines send and recv: messages between two ranks, through their own channel,
// in segments. A message is taken when its receiver has copied it all; only
// then the send is complete.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "comm/net/reach.h"
#include "comm/shm/operation.h"
#include "comm/shm/segment.h"

namespace zero::comm {

// The two counters below belong to the caller and outlive the operation: how
// many segments this rank has put into, or taken out of, the channel.
std::shared_ptr<Operation> make_send(
    const Segment& segment,
    const Reach& reach,
    int rank,
    int to,
    uint64_t& produced,
    const at::Tensor& tensor);

std::shared_ptr<Operation> make_recv(
    const Segment& segment,
    const Reach& reach,
    int rank,
    int from,
    uint64_t& consumed,
    const at::Tensor& tensor);

} // namespace zero::comm

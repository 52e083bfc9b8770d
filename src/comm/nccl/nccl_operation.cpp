#include "comm/nccl/nccl_operation.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/nccl/nccl_group.h"

namespace zero::comm {

bool NcclOperation::advance() {
  std::string reason;
  if (options_.event) {
    const auto state = group_.module().poll(options_.event.get());
    // In this order: what ends with NCCL itself is not done.
    if (state == ZeroNcclState::done && !group_.is_ended()) {
      is_complete_ = true;
      return true;
    }
    if (state == ZeroNcclState::failed) {
      reason = c10::str(group_.module().error(), kNcclFix);
    }
  }
  reason = reason.empty() ? group_.complaint() : reason;
  if (reason.empty()) {
    return false;
  }
  throw CommError(c10::str(
      base::rank_prefix(group_.rank(), group_.size()),
      describe(signature()),
      " #",
      sequence,
      ": ",
      reason));
}

void NcclOperation::give_up() {
  group_.close();
}

// Which of them it is, NCCL does not tell.
std::vector<int> NcclOperation::awaited() const {
  const auto op = signature().op;
  if (op == CommOp::send || op == CommOp::recv) {
    return {signature().root};
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank != group_.rank()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

} // namespace zero::comm

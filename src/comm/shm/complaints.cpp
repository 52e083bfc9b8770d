#include "comm/shm/complaints.h"

#include "base/error.h"
#include "base/log.h"

namespace zero::comm {

namespace {

FailedOperation failed(const Operation& operation, int rank) {
  return {rank, zero::name_of(operation.signature().op), operation.sequence};
}

std::string call(const Operation& operation) {
  return c10::str(describe(operation.signature()), " #", operation.sequence);
}

} // namespace

std::string Complaints::title(const Operation& operation) const {
  return base::rank_prefix(options_.rank, segment_.size()) + call(operation);
}

std::exception_ptr Complaints::peer_lost(const Operation& operation, int rank)
    const {
  return std::make_exception_ptr(PeerLost(
      c10::str(
          title(operation),
          ": rank ",
          rank,
          " is lost: ",
          options_.epitaph(rank),
          ". Fix: call shrink() on every survivor to go on without it"),
      failed(operation, rank)));
}

std::exception_ptr Complaints::deserted(const Operation& operation, int rank)
    const {
  return std::make_exception_ptr(CommError(c10::str(
      title(operation),
      ": rank ",
      rank,
      " has given up this communicator by shrink(). Fix: call shrink() here "
      "too, and use the one it returns")));
}

std::exception_ptr Complaints::timed_out(const Operation& operation) const {
  const auto awaited = operation.awaited();
  return std::make_exception_ptr(CommTimeout(
      c10::str(
          title(operation),
          ": waited ",
          options_.progress_timeout_seconds,
          " s for ranks ",
          c10::Join(", ", awaited),
          ", which are alive. Fix: make sure every rank calls it, or raise "
          "progress_timeout_seconds (ZERO_PROGRESS_TIMEOUT_SECONDS without a "
          "configuration)"),
      failed(operation, awaited.empty() ? -1 : awaited.front())));
}

void Complaints::warn_late(const Operation& operation, double seconds) const {
  const auto awaited = operation.awaited();
  if (awaited.empty()) {
    return;
  }
  const int first = awaited.front();
  const auto at = Position::unpack(
      segment_.state(first).position.load(std::memory_order_relaxed));
  const std::string reached = at.sequence < 0
      ? "has not called anything yet"
      : c10::str(
            at.inside ? "is in " : "has completed ",
            zero::name_of(at.op),
            " #",
            at.sequence);
  // One line, however many there are.
  const std::vector<int> others(awaited.begin() + 1, awaited.end());
  base::log_warning(
      options_.rank,
      segment_.size(),
      c10::str(
          "rank ",
          first,
          " is late: awaited for ",
          static_cast<int>(seconds),
          " s in ",
          call(operation),
          "; it ",
          reached,
          others.empty() ? "" : "; so are ranks ",
          c10::Join(", ", others)));
}

} // namespace zero::comm

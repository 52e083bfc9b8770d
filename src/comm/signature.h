// Defines Signature: what a rank called. Ranks compare them; errors show them.
#pragma once

#include <c10/core/ScalarType.h>
#include <zero/communicator.h>

#include <cstdint>
#include <string>

namespace zero::comm {

struct Signature {
  CommOp op = CommOp::barrier;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  ReduceOp reduce = ReduceOp::sum; // of reductions
  int32_t root = -1; // of broadcast; the peer of send and recv
  int64_t numel = 0; // of the whole, unsharded buffer

  bool operator==(const Signature&) const = default;
};

// Of an operation on a buffer, given whole.
inline Signature signature_of(
    CommOp op,
    const at::Tensor& whole,
    ReduceOp reduce = ReduceOp::sum,
    int root = -1) {
  return {op, whole.scalar_type(), reduce, root, whole.numel()};
}

// "all_reduce(sum, float32, 1000 elements)"
std::string describe(const Signature& signature);

// "float32": the name of a tensor's element type, as Python's torch has it.
std::string name_of(c10::ScalarType dtype);

} // namespace zero::comm

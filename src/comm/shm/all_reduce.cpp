#include <algorithm>
#include <vector>

#include "comm/reduce_kernels.h"
#include "comm/shm/buffer.h"
#include "comm/shm/collectives.h"
#include "comm/shm/joined.h"
#include "comm/shm/straight.h"

namespace zero::comm {

namespace {

// Up to this size every rank reads everybody's tensor and sums for itself: one
// handshake instead of two. Beyond it the repeated reading costs more.
constexpr int64_t kDirectBytes = 16 << 10;

// How much of a result is copied at once, while it is in the first-level cache.
constexpr int64_t kCopyBytes = 8 << 10;

class DirectAllReduce final : public Collective {
 public:
  DirectAllReduce(
      CollectiveContext context,
      const at::Tensor& tensor,
      ReduceOp op)
      : Collective(
            context,
            signature_of(CommOp::all_reduce, tensor, op),
            {.number = 1}),
        tensor_(tensor),
        op_(op) {}

 private:
  int64_t bytes() const {
    return static_cast<int64_t>(tensor_.nbytes());
  }

  void publish(int64_t piece) override {
    copy_bytes(slot(rank(), piece), bytes_of(tensor_), bytes());
    reach().store(slot(rank(), piece), bytes());
  }

  void collect(int64_t piece) override {
    std::vector<const void*> inputs(static_cast<size_t>(size()));
    for (int from = 0; from < size(); ++from) {
      inputs[static_cast<size_t>(from)] = slot(from, piece);
    }
    reduce(
        op_,
        tensor_.scalar_type(),
        bytes_of(tensor_),
        inputs.data(),
        size(),
        tensor_.numel());
    count_received((size() - 1) * bytes());
  }

  at::Tensor tensor_;
  ReduceOp op_;
};

class ChunkedAllReduce final : public Collective {
 public:
  ChunkedAllReduce(
      CollectiveContext context,
      const at::Tensor& tensor,
      ReduceOp op,
      const ChunkedBuffer& buffer)
      : Collective(
            context,
            signature_of(CommOp::all_reduce, tensor, op),
            {.number = buffer.num_pieces(), .combined = true}),
        tensor_(tensor),
        data_(bytes_of(tensor)),
        op_(op),
        buffer_(buffer) {}

 private:
  void publish(int64_t piece) override {
    for (int to = 0; to < size(); ++to) {
      const auto range = buffer_.piece_in_buffer(to, piece);
      if (to != rank()) {
        copy_bytes(slot(rank(), piece, to), data_ + range.offset, range.bytes);
      }
    }
  }

  void combine(int64_t piece) override {
    const auto range = buffer_.piece_in_buffer(rank(), piece);
    std::byte* own = data_ + range.offset;
    std::byte* out = result(rank(), piece);
    const int64_t element = tensor_.element_size();
    std::vector<const void*> inputs(static_cast<size_t>(size()));
    for (int64_t done = 0; done < range.bytes; done += kCopyBytes) {
      const int64_t bytes = std::min(kCopyBytes, range.bytes - done);
      for (int from = 0; from < size(); ++from) {
        inputs[static_cast<size_t>(from)] =
            done + (from == rank() ? own : slot(from, piece, rank()));
      }
      reduce(
          op_,
          tensor_.scalar_type(),
          out + done,
          inputs.data(),
          size(),
          bytes / element);
      copy_bytes(own + done, out + done, bytes);
    }
    count_received((size() - 1) * range.bytes);
  }

  void collect(int64_t piece) override {
    for (int from = 0; from < size(); ++from) {
      const auto range = buffer_.piece_in_buffer(from, piece);
      if (from != rank()) {
        copy_bytes(data_ + range.offset, result(from, piece), range.bytes);
        count_received(range.bytes);
      }
    }
  }

  at::Tensor tensor_;
  std::byte* data_;
  ReduceOp op_;
  ChunkedBuffer buffer_;
};

} // namespace

std::shared_ptr<Operation> make_all_reduce(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  if (bytes > 0 && bytes <= kDirectBytes) {
    return std::make_shared<DirectAllReduce>(context, tensor, op);
  }
  if (goes_straight(context, bytes)) {
    return make_straight_all_reduce(context, tensor, op);
  }
  if (!context.reach.is_one_host()) {
    return make_joined_all_reduce(context, tensor, op);
  }
  // Nothing to do alone, or with nothing: then there are no pieces.
  const int64_t numel = context.segment.size() == 1 ? 0 : tensor.numel();
  const ChunkedBuffer buffer(
      numel,
      tensor.element_size(),
      context.segment.size(),
      context.segment.part_bytes());
  return std::make_shared<ChunkedAllReduce>(context, tensor, op, buffer);
}

} // namespace zero::comm

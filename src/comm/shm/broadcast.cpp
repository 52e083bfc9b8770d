#include "comm/shm/buffer.h"
#include "comm/shm/collectives.h"
#include "comm/shm/straight.h"

namespace zero::comm {

namespace {

class Broadcast final : public Collective {
 public:
  Broadcast(
      CollectiveContext context,
      const at::Tensor& tensor,
      int root,
      const ChunkedBuffer& buffer)
      : Collective(
            context,
            signature_of(CommOp::broadcast, tensor, ReduceOp::sum, root),
            {.number = buffer.num_pieces()}),
        tensor_(tensor),
        root_(root),
        buffer_(buffer) {}

 private:
  void publish(int64_t piece) override {
    if (rank() == root_) {
      const auto range = buffer_.piece(0, piece);
      copy_bytes(
          slot(root_, piece), bytes_of(tensor_) + range.offset, range.bytes);
      reach().store(slot(root_, piece), range.bytes);
    }
  }

  void collect(int64_t piece) override {
    if (rank() != root_) {
      const auto range = buffer_.piece(0, piece);
      copy_out(
          bytes_of(tensor_) + range.offset,
          slot(root_, piece),
          range.bytes,
          static_cast<int64_t>(tensor_.nbytes()));
      count_received(range.bytes);
    }
  }

  at::Tensor tensor_;
  int root_;
  ChunkedBuffer buffer_; // one chunk, the root's
};

class Barrier final : public Collective {
 public:
  explicit Barrier(CollectiveContext context)
      : Collective(context, {.op = CommOp::barrier}, {.number = 1}) {}

 private:
  void publish(int64_t /*piece*/) override {}
  void collect(int64_t /*piece*/) override {}
};

} // namespace

std::shared_ptr<Operation> make_broadcast(
    CollectiveContext context,
    const at::Tensor& tensor,
    int root) {
  if (goes_straight(context, static_cast<int64_t>(tensor.nbytes()))) {
    return make_straight_broadcast(context, tensor, root);
  }
  const ChunkedBuffer buffer(
      tensor.numel(), tensor.element_size(), 1, kSlotBytes);
  return std::make_shared<Broadcast>(context, tensor, root, buffer);
}

std::shared_ptr<Operation> make_barrier(CollectiveContext context) {
  return std::make_shared<Barrier>(context);
}

} // namespace zero::comm

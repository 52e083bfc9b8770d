#include <vector>

#include "comm/reduce_kernels.h"
#include "comm/shm/buffer.h"
#include "comm/shm/collectives.h"
#include "comm/shm/joined.h"
#include "comm/shm/straight.h"

namespace zero::comm {

namespace {

class ReduceScatter final : public Collective {
 public:
  ReduceScatter(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      ReduceOp op,
      const ChunkedBuffer& buffer)
      : Collective(
            context,
            signature_of(CommOp::reduce_scatter, input, op),
            {.number = buffer.num_pieces()}),
        output_(output),
        input_(input),
        op_(op),
        buffer_(buffer) {}

 private:
  void publish(int64_t piece) override {
    for (int to = 0; to < size(); ++to) {
      const auto range = buffer_.piece_in_buffer(to, piece);
      if (to != rank()) {
        copy_bytes(
            slot(rank(), piece, to),
            bytes_of(input_) + range.offset,
            range.bytes);
      }
    }
  }

  void collect(int64_t piece) override {
    const auto range = buffer_.piece(rank(), piece);
    const std::byte* own =
        bytes_of(input_) + buffer_.chunk(rank()).offset + range.offset;
    std::vector<const void*> inputs(static_cast<size_t>(size()));
    for (int from = 0; from < size(); ++from) {
      inputs[static_cast<size_t>(from)] =
          from == rank() ? own : slot(from, piece, rank());
    }
    reduce(
        op_,
        input_.scalar_type(),
        bytes_of(output_) + range.offset,
        inputs.data(),
        size(),
        range.bytes / input_.element_size());
    count_received((size() - 1) * range.bytes);
  }

  at::Tensor output_;
  at::Tensor input_;
  ReduceOp op_;
  ChunkedBuffer buffer_;
};

} // namespace

std::shared_ptr<Operation> make_reduce_scatter(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op) {
  if (goes_straight(context, static_cast<int64_t>(input.nbytes()))) {
    return make_straight_reduce_scatter(context, output, input, op);
  }
  if (!context.reach.is_one_host()) {
    return make_joined_reduce_scatter(context, output, input, op);
  }
  const ChunkedBuffer buffer(
      input.numel(),
      input.element_size(),
      context.segment.size(),
      context.segment.part_bytes());
  return std::make_shared<ReduceScatter>(context, output, input, op, buffer);
}

} // namespace zero::comm

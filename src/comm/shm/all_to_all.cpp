#include "comm/shm/buffer.h"
#include "comm/shm/collectives.h"
#include "comm/shm/straight.h"

namespace zero::comm {

namespace {

class AllToAll final : public Collective {
 public:
  AllToAll(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      const ChunkedBuffer& buffer)
      : Collective(
            context,
            signature_of(CommOp::all_to_all, input),
            {.number = buffer.num_pieces()}),
        output_(output),
        input_(input),
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
        reach().store(
            slot(rank(), piece, to), range.bytes, reach().hosts().host_of(to));
      }
    }
  }

  // Piece k of a chunk was published, so read, before piece k from another rank
  // takes its place: that makes it right in place too.
  void collect(int64_t piece) override {
    const auto range = buffer_.piece(rank(), piece);
    const auto chunk = buffer_.chunk(rank());
    for (int from = 0; from < size(); ++from) {
      std::byte* to = bytes_of(output_) + from * chunk.bytes + range.offset;
      const std::byte* source = from == rank()
          ? bytes_of(input_) + chunk.offset + range.offset
          : slot(from, piece, rank());
      if (source != to) {
        copy_bytes(to, source, range.bytes);
      }
    }
    count_received((size() - 1) * range.bytes);
  }

  at::Tensor output_;
  at::Tensor input_;
  ChunkedBuffer buffer_;
};

} // namespace

std::shared_ptr<Operation> make_all_to_all(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input) {
  if (goes_straight(context, static_cast<int64_t>(input.nbytes()))) {
    return make_straight_all_to_all(context, output, input);
  }
  const ChunkedBuffer buffer(
      input.numel(),
      input.element_size(),
      context.segment.size(),
      context.segment.part_bytes());
  return std::make_shared<AllToAll>(context, output, input, buffer);
}

} // namespace zero::comm

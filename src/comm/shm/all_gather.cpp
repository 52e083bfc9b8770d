#include "comm/shm/buffer.h"
#include "comm/shm/collectives.h"
#include "comm/shm/straight.h"

namespace zero::comm {

namespace {

class AllGather final : public Collective {
 public:
  AllGather(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      CommOp name,
      const ChunkedBuffer& buffer)
      : Collective(
            context,
            signature_of(name, output),
            {.number = buffer.num_pieces()}),
        output_(output),
        input_(input),
        buffer_(buffer) {}

 private:
  void publish(int64_t piece) override {
    const auto range = buffer_.piece(rank(), piece);
    copy_bytes(
        slot(rank(), piece), bytes_of(input_) + range.offset, range.bytes);
    reach().store(slot(rank(), piece), range.bytes);
  }

  void collect(int64_t piece) override {
    const auto whole = static_cast<int64_t>(output_.nbytes());
    for (int from = 0; from < size(); ++from) {
      const auto range = buffer_.piece_in_buffer(from, piece);
      std::byte* to = bytes_of(output_) + range.offset;
      if (from != rank()) {
        copy_out(to, slot(from, piece), range.bytes, whole);
        count_received(range.bytes);
        continue;
      }
      const std::byte* own =
          bytes_of(input_) + buffer_.piece(rank(), piece).offset;
      if (own != to) {
        copy_bytes(to, own, range.bytes);
      }
    }
  }

  at::Tensor output_;
  at::Tensor input_;
  ChunkedBuffer buffer_;
};

} // namespace

std::shared_ptr<Operation> make_all_gather(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    CommOp name) {
  if (goes_straight(context, static_cast<int64_t>(output.nbytes()))) {
    return make_straight_all_gather(context, output, input, name);
  }
  const ChunkedBuffer buffer(
      output.numel(),
      output.element_size(),
      context.segment.size(),
      kSlotBytes);
  return std::make_shared<AllGather>(context, output, input, name, buffer);
}

} // namespace zero::comm

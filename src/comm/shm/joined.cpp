#include "comm/shm/joined.h"

#include <vector>

#include "comm/reduce_kernels.h"
#include "comm/shm/buffer.h"

namespace zero::comm {

namespace {

// Between hosts sums are as wide as within a reduction: halves are float32
// meanwhile, small integers int32.
c10::ScalarType type_between_hosts(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kHalf:
    case c10::kBFloat16:
      return c10::kFloat;
    case c10::kByte:
    case c10::kChar:
      return c10::kInt;
    default:
      return dtype;
  }
}

class Joined : public Collective {
 protected:
  Joined(
      CollectiveContext context,
      const Signature& signature,
      bool combined,
      const at::Tensor& input,
      const ChunkedBuffer& buffer)
      : Collective(
            context,
            signature,
            {.number = buffer.num_pieces(),
             .joined = true,
             .combined = combined}),
        wide_(input),
        data_(bytes_of(wide_)),
        op_(signature.reduce),
        buffer_(buffer) {}

  void publish(int64_t piece) final {
    for (int to = 0; to < size(); ++to) {
      const auto range = buffer_.piece_in_buffer(to, piece);
      if (joiner_of(to) != rank()) {
        copy_bytes(slot(rank(), piece, to), data_ + range.offset, range.bytes);
      }
    }
  }

  void join(int64_t piece) final {
    const auto& here = reach().hosts().ranks_of(reach().host());
    for (int to = 0; to < size(); ++to) {
      if (joiner_of(to) != rank()) {
        continue;
      }
      const auto range = buffer_.piece_in_buffer(to, piece);
      std::vector<const void*> inputs;
      for (const int from : here) {
        inputs.push_back(
            from == rank() ? data_ + range.offset : slot(from, piece, to));
      }
      reduce_into(
          op_ == ReduceOp::mean ? ReduceOp::sum : op_,
          slot(rank(), piece, to),
          inputs,
          range.bytes);
      reach().store(
          slot(rank(), piece, to), range.bytes, reach().hosts().host_of(to));
    }
  }

  // This rank's part of the result.
  void add_hosts_up(int64_t piece, std::byte* out) {
    std::vector<const void*> inputs;
    for (int host = 0; host < reach().hosts().num_hosts(); ++host) {
      const int joiner = reach().hosts().counterpart(rank(), host);
      inputs.push_back(slot(joiner, piece, rank()));
    }
    reduce_into(op_, out, inputs, buffer_.piece(rank(), piece).bytes);
  }

  bool is_last(int64_t piece) const {
    return piece + 1 == buffer_.num_pieces();
  }

  const at::Tensor& wide() const {
    return wide_;
  }
  const ChunkedBuffer& buffer() const {
    return buffer_;
  }

 private:
  int joiner_of(int to) const {
    return reach().hosts().counterpart(to, reach().host());
  }

  void reduce_into(
      ReduceOp op,
      std::byte* out,
      const std::vector<const void*>& inputs,
      int64_t bytes) {
    reduce(
        op,
        wide_.scalar_type(),
        out,
        inputs.data(),
        static_cast<int>(inputs.size()),
        bytes / wide_.element_size(),
        size());
    count_received((static_cast<int64_t>(inputs.size()) - 1) * bytes);
  }

  at::Tensor wide_;
  std::byte* data_;
  ReduceOp op_;
  ChunkedBuffer buffer_;
};

class JoinedAllReduce final : public Joined {
 public:
  JoinedAllReduce(
      CollectiveContext context,
      const at::Tensor& tensor,
      ReduceOp op,
      const at::Tensor& wide,
      const ChunkedBuffer& buffer)
      : Joined(
            context,
            signature_of(CommOp::all_reduce, tensor, op),
            /*combined=*/true,
            wide,
            buffer),
        tensor_(tensor) {}

 private:
  void combine(int64_t piece) override {
    std::byte* out = result(rank(), piece);
    add_hosts_up(piece, out);
    reach().store(out, buffer().piece(rank(), piece).bytes);
  }

  void collect(int64_t piece) override {
    for (int from = 0; from < size(); ++from) {
      const auto range = buffer().piece_in_buffer(from, piece);
      copy_bytes(
          bytes_of(wide()) + range.offset, result(from, piece), range.bytes);
      count_received(from == rank() ? 0 : range.bytes);
    }
    if (is_last(piece) && !wide().is_same(tensor_)) {
      tensor_.copy_(wide());
    }
  }

  at::Tensor tensor_;
};

class JoinedReduceScatter final : public Joined {
 public:
  JoinedReduceScatter(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      ReduceOp op,
      const at::Tensor& wide,
      const ChunkedBuffer& buffer)
      : Joined(
            context,
            signature_of(CommOp::reduce_scatter, input, op),
            /*combined=*/false,
            wide,
            buffer),
        output_(output),
        wide_output_(
            wide.is_same(input) ? output : output.to(wide.scalar_type())) {}

 private:
  void collect(int64_t piece) override {
    const auto range = buffer().piece(rank(), piece);
    if (range.bytes > 0) {
      add_hosts_up(piece, bytes_of(wide_output_) + range.offset);
    }
    if (is_last(piece) && !wide_output_.is_same(output_)) {
      output_.copy_(wide_output_);
    }
  }

  at::Tensor output_;
  at::Tensor wide_output_;
};

ChunkedBuffer buffer_of(
    const CollectiveContext& context,
    const at::Tensor& wide) {
  return {
      wide.numel(),
      wide.element_size(),
      context.segment.size(),
      context.segment.part_bytes()};
}

} // namespace

std::shared_ptr<Operation> make_joined_all_reduce(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op) {
  const at::Tensor wide = tensor.to(type_between_hosts(tensor.scalar_type()));
  return std::make_shared<JoinedAllReduce>(
      context, tensor, op, wide, buffer_of(context, wide));
}

std::shared_ptr<Operation> make_joined_reduce_scatter(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op) {
  const at::Tensor wide = input.to(type_between_hosts(input.scalar_type()));
  return std::make_shared<JoinedReduceScatter>(
      context, output, input, op, wide, buffer_of(context, wide));
}

} // namespace zero::comm

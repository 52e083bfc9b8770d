#include "comm/shm/in_place.h"

#include "comm/reduce_kernels.h"
#include "comm/shm/buffer.h"

namespace zero::comm {

namespace {

// What one rank has reduced is read by the others while it is in the cache.
constexpr int64_t kPieceBytes = 512 << 10;

// Publishing says that this rank's tensor is there to be read; nobody returns
// before everybody has read it.
class InPlace : public Collective {
 protected:
  InPlace(
      CollectiveContext context,
      const Signature& signature,
      const at::Tensor& tensor,
      Tensors tensors,
      bool combined,
      int64_t number = 1)
      : Collective(
            context,
            signature,
            {.number = number, .combined = combined, .closed = true}),
        tensor_(tensor),
        tensors_(std::move(tensors)) {}

  void publish(int64_t /*piece*/) final {}

  std::byte* theirs(int rank) const {
    return tensors_[static_cast<size_t>(rank)];
  }
  std::byte* own() const {
    return bytes_of(tensor_);
  }
  ByteRange chunk(int rank) const {
    const auto range = chunk_range(signature().numel, rank, size());
    const int64_t element = tensor_.element_size();
    return {range.offset * element, range.numel * element};
  }

  // Reduces a part of everybody's tensor.
  void reduce_part(ReduceOp op, ByteRange range, std::byte* out) {
    std::vector<const void*> inputs;
    for (const auto* tensor : tensors_) {
      inputs.push_back(tensor + range.offset);
    }
    reduce(
        op,
        tensor_.scalar_type(),
        out,
        inputs.data(),
        size(),
        range.bytes / tensor_.element_size());
    count_received((size() - 1) * range.bytes);
  }

  void copy_in(std::byte* to, const std::byte* from, int64_t bytes) {
    copy_out(to, from, bytes, signature().numel * tensor_.element_size());
    count_received(bytes);
  }

 private:
  at::Tensor tensor_; // this rank's; it keeps the window mapped
  Tensors tensors_;
};

// Of another rank's tensor only the chunk of the reader is read while that rank
// writes only its own chunk; then only the chunk that its owner has reduced.
class AllReduceInPlace final : public InPlace {
 public:
  AllReduceInPlace(
      CollectiveContext context,
      const at::Tensor& tensor,
      ReduceOp op,
      Tensors tensors,
      const ChunkedBuffer& buffer)
      : InPlace(
            context,
            signature_of(CommOp::all_reduce, tensor, op),
            tensor,
            std::move(tensors),
            true,
            buffer.num_pieces()),
        op_(op),
        buffer_(buffer) {}

 private:
  void combine(int64_t piece) override {
    const auto range = buffer_.piece_in_buffer(rank(), piece);
    reduce_part(op_, range, own() + range.offset);
  }
  void collect(int64_t piece) override {
    for (int from = 0; from < size(); ++from) {
      const auto range = buffer_.piece_in_buffer(from, piece);
      if (from != rank()) {
        copy_in(own() + range.offset, theirs(from) + range.offset, range.bytes);
      }
    }
  }

  ReduceOp op_;
  ChunkedBuffer buffer_;
};

class ReduceScatterInPlace final : public InPlace {
 public:
  ReduceScatterInPlace(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      ReduceOp op,
      Tensors tensors)
      : InPlace(
            context,
            signature_of(CommOp::reduce_scatter, input, op),
            input,
            std::move(tensors),
            false),
        output_(output),
        op_(op) {}

 private:
  void collect(int64_t /*piece*/) override {
    reduce_part(op_, chunk(rank()), bytes_of(output_));
  }

  at::Tensor output_;
  ReduceOp op_;
};

class AllGatherInPlace final : public InPlace {
 public:
  AllGatherInPlace(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      Tensors tensors)
      : InPlace(
            context,
            signature_of(CommOp::all_gather, output),
            input,
            std::move(tensors),
            false),
        output_(output) {}

 private:
  void collect(int64_t /*piece*/) override {
    for (int from = 0; from < size(); ++from) {
      const auto range = chunk(from);
      std::byte* to = bytes_of(output_) + range.offset;
      if (from != rank()) {
        copy_in(to, theirs(from), range.bytes);
      } else if (to != own()) {
        copy_bytes(to, own(), range.bytes);
      }
    }
  }

  at::Tensor output_;
};

class BroadcastInPlace final : public InPlace {
 public:
  BroadcastInPlace(
      CollectiveContext context,
      const at::Tensor& tensor,
      int root,
      Tensors tensors)
      : InPlace(
            context,
            signature_of(CommOp::broadcast, tensor, ReduceOp::sum, root),
            tensor,
            std::move(tensors),
            false),
        root_(root),
        bytes_(static_cast<int64_t>(tensor.nbytes())) {}

 private:
  void collect(int64_t /*piece*/) override {
    if (rank() != root_) {
      copy_in(own(), theirs(root_), bytes_);
    }
  }

  int root_;
  int64_t bytes_;
};

} // namespace

std::shared_ptr<Operation> all_reduce_in_place(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op,
    Tensors tensors) {
  const ChunkedBuffer buffer(
      tensor.numel(),
      tensor.element_size(),
      context.segment.size(),
      kPieceBytes);
  return std::make_shared<AllReduceInPlace>(
      context, tensor, op, std::move(tensors), buffer);
}

std::shared_ptr<Operation> reduce_scatter_in_place(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op,
    Tensors tensors) {
  return std::make_shared<ReduceScatterInPlace>(
      context, output, input, op, std::move(tensors));
}

std::shared_ptr<Operation> all_gather_in_place(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    Tensors tensors) {
  return std::make_shared<AllGatherInPlace>(
      context, output, input, std::move(tensors));
}

std::shared_ptr<Operation> broadcast_in_place(
    CollectiveContext context,
    const at::Tensor& tensor,
    int root,
    Tensors tensors) {
  return std::make_shared<BroadcastInPlace>(
      context, tensor, root, std::move(tensors));
}

} // namespace zero::comm

#include "comm/shm/pairwise.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "comm/shm/buffer.h"

namespace zero::comm {

namespace {

// An empty message is one empty segment.
int64_t num_segments(int64_t bytes, int64_t segment_bytes) {
  return std::max<int64_t>(1, (bytes + segment_bytes - 1) / segment_bytes);
}

class Pairwise : public Operation {
 public:
  std::vector<int> awaited() const override {
    return {peer_};
  }

 protected:
  Pairwise(
      const Segment& segment,
      const Reach& reach,
      int rank,
      int peer,
      CommOp op,
      const at::Tensor& tensor)
      : Operation(signature_of(op, tensor, ReduceOp::sum, peer)),
        segment_(segment),
        reach_(reach),
        rank_(rank),
        peer_(peer),
        tensor_(tensor),
        bytes_(static_cast<int64_t>(tensor.nbytes())),
        segments_(num_segments(bytes_, segment.pair_bytes())) {}

  // Where a segment of the message lies in the tensor.
  ByteRange range(int64_t number) const {
    const int64_t offset = number * segment_.pair_bytes();
    return {offset, std::min(segment_.pair_bytes(), bytes_ - offset)};
  }

  [[noreturn]] void disagree(const Signature& theirs) const {
    throw CommError(c10::str(
        base::rank_prefix(rank_, segment_.size()),
        describe(signature()),
        " #",
        sequence,
        " does not fit what rank ",
        peer_,
        " called: ",
        describe(theirs),
        ". Fix: send and receive the same size and type"));
  }

  const Segment& segment_;
  const Reach& reach_;
  int rank_;
  int peer_;
  at::Tensor tensor_;
  int64_t bytes_;
  int64_t segments_;
  int64_t done_ = 0; // segments
};

class Send final : public Pairwise {
 public:
  Send(
      const Segment& segment,
      const Reach& reach,
      int rank,
      int to,
      uint64_t& produced,
      const at::Tensor& tensor)
      : Pairwise(segment, reach, rank, to, CommOp::send, tensor),
        channel_(segment.pair(rank, to)),
        produced_(produced) {}

  bool advance() override {
    if (channel_.refused.load() != 0) {
      disagree(channel_.refusal);
    }
    bool moved = false;
    while (done_ < segments_ &&
           produced_ - channel_.consumed.load() < kPairDepth) {
      if (done_ == 0) {
        auto& header = channel_.headers[produced_ % kPairDepth];
        header = signature();
        reach_.store_for(&header, sizeof(header), peer_);
      }
      const auto part = range(done_);
      std::byte* slot = segment_.pair_slot(rank_, peer_, produced_);
      copy_bytes(slot, bytes_of(tensor_) + part.offset, part.bytes);
      reach_.store_for(slot, part.bytes, peer_);
      ++done_;
      channel_.produced.store(++produced_);
      reach_.store_word_for(channel_.produced, peer_);
      segment_.state(peer_).doorbell.ring();
      moved = true;
    }
    return moved;
  }

  bool complete() const override {
    return done_ == segments_ && channel_.consumed.load() == produced_;
  }
  bool owes() const override {
    return done_ < segments_;
  }
  int64_t bytes_received() const override {
    return 0;
  }

 private:
  PairState& channel_;
  uint64_t& produced_;
};

class Recv final : public Pairwise {
 public:
  Recv(
      const Segment& segment,
      const Reach& reach,
      int rank,
      int from,
      uint64_t& consumed,
      const at::Tensor& tensor)
      : Pairwise(segment, reach, rank, from, CommOp::recv, tensor),
        channel_(segment.pair(from, rank)),
        consumed_(consumed) {}

  bool advance() override {
    if (channel_.refused.load() != 0) {
      disagree(channel_.headers[consumed_ % kPairDepth]);
    }
    bool moved = false;
    while (done_ < segments_ && channel_.produced.load() > consumed_) {
      if (done_ == 0) {
        check_header();
      }
      const auto part = range(done_);
      copy_bytes(
          bytes_of(tensor_) + part.offset,
          segment_.pair_slot(peer_, rank_, consumed_),
          part.bytes);
      ++done_;
      channel_.consumed.store(++consumed_);
      reach_.store_word_for(channel_.consumed, peer_, Order::overtaking);
      segment_.state(peer_).doorbell.ring();
      moved = true;
    }
    return moved;
  }

  bool complete() const override {
    return done_ == segments_;
  }
  bool owes() const override {
    return done_ < segments_;
  }
  int64_t bytes_received() const override {
    return bytes_;
  }

 private:
  void check_header() {
    const auto& header = channel_.headers[consumed_ % kPairDepth];
    if (header.dtype == signature().dtype &&
        header.numel == signature().numel) {
      return;
    }
    channel_.refusal = signature();
    channel_.refused.store(1);
    reach_.store_for(&channel_.refusal, sizeof(Signature), peer_);
    reach_.store_word_for(channel_.refused, peer_);
    segment_.state(peer_).doorbell.ring();
    disagree(header);
  }

  PairState& channel_;
  uint64_t& consumed_;
};

} // namespace

std::shared_ptr<Operation> make_send(
    const Segment& segment,
    const Reach& reach,
    int rank,
    int to,
    uint64_t& produced,
    const at::Tensor& tensor) {
  return std::make_shared<Send>(segment, reach, rank, to, produced, tensor);
}

std::shared_ptr<Operation> make_recv(
    const Segment& segment,
    const Reach& reach,
    int rank,
    int from,
    uint64_t& consumed,
    const at::Tensor& tensor) {
  return std::make_shared<Recv>(segment, reach, rank, from, consumed, tensor);
}

} // namespace zero::comm

#include "comm/shm/straight.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/alignment.h"
#include "comm/reduce_kernels.h"
#include "comm/shm/buffer.h"

namespace zero::comm {

namespace {

// From here on the copies saved are worth what it takes to begin.
constexpr int64_t kStraightBytes = 64 << 10;

// Of what a rank has to work on, so much is here at a time, in the cache.
constexpr size_t kRingBytes = 4 * Mirror::kPassagePartBytes;

// Who gives up waits for the threads of other hosts.
constexpr std::chrono::microseconds kLookAgain(50);

class Straight : public Collective {
 public:
  ~Straight() override {
    take_back(); // if it was dropped unfinished
  }

  void give_up() final {
    take_back();
  }

 protected:
  Straight(CollectiveContext context, const Signature& signature)
      : Collective(context, signature, {}) {}

  // Called once each: what comes from the others, and, when all are known to
  // have called the same, what goes to them.
  virtual void open_inward() = 0;
  virtual void open_outward() = 0;
  // What is to be done with what has come, and whether all of it is.
  virtual void work() {}
  virtual bool has_worked() const {
    return true;
  }

  // What a rank puts aside of another one's bytes.
  static int64_t ring_bytes(int64_t bytes) {
    return base::round_up<int64_t>(
        std::min(static_cast<int64_t>(kRingBytes), bytes), base::kPage);
  }

  ByteRange chunk(int rank) const {
    const auto range = chunk_range(signature().numel, rank, size());
    const auto element =
        static_cast<int64_t>(c10::elementSize(signature().dtype));
    return {range.offset * element, range.numel * element};
  }

  // A collective has up to two of them with each rank and way: 0 and 1.
  std::shared_ptr<Passage> make(
      Passage::Way way,
      int rank,
      const at::Tensor& tensor,
      ByteRange range,
      uint64_t which = 0) const {
    constexpr uint64_t kWays = 2;
    auto passage = reach().passage(
        way, rank, static_cast<uint64_t>(sequence) * kWays + which);
    passage->data = bytes_of(tensor) + range.offset;
    passage->bytes = static_cast<size_t>(range.bytes);
    passage->keep = std::make_shared<at::Tensor>(tensor);
    return passage;
  }
  // Empty ones are over at once.
  void open(int rank, const std::shared_ptr<Passage>& passage) {
    if (passage->bytes == 0) {
      passage->is_over = true;
      return;
    }
    open_.push_back({rank, passage});
    reach().open(passage);
  }
  void open_whole(int rank, const std::shared_ptr<Passage>& passage) {
    passage->ready = passage->bytes;
    open(rank, passage);
  }
  std::shared_ptr<Passage> in(
      int from,
      const at::Tensor& tensor,
      ByteRange range,
      uint64_t which = 0) {
    count_received(range.bytes);
    return make(Passage::Way::in, from, tensor, range, which);
  }
  std::shared_ptr<Passage> out(
      int to,
      const at::Tensor& tensor,
      ByteRange range,
      uint64_t which = 0) const {
    return make(Passage::Way::out, to, tensor, range, which);
  }

  template <class Visitor>
  void for_each_other(Visitor visit) const {
    // Each begins with the next one, so that not all send to one at a time.
    for (int distance = 1; distance < size(); ++distance) {
      visit((rank() + distance) % size());
    }
  }

 private:
  struct Opened {
    int rank = 0;
    std::shared_ptr<Passage> passage;
  };

  void publish(int64_t /*piece*/) final {}
  void collect(int64_t /*piece*/) final {}

  bool await_straight() final {
    if (has_begun_) {
      return false;
    }
    has_begun_ = true;
    open_inward();
    return true;
  }

  bool move_straight() final {
    if (!has_let_go_) {
      has_let_go_ = true;
      open_outward();
    }
    work();
    size_t moved = 0;
    for (const auto& [rank, passage] : open_) {
      moved += passage->moved + (passage->is_over ? 1 : 0);
    }
    return std::exchange(moved_, moved) != moved;
  }

  bool has_moved_straight() const final {
    return has_let_go_ && has_worked() &&
        std::ranges::all_of(open_, [](const Opened& opened) {
             return opened.passage->is_done();
           });
  }

  std::vector<int> awaited_straight() const final {
    std::vector<int> ranks;
    for (const auto& [rank, passage] : open_) {
      if (!passage->is_done() &&
          std::ranges::find(ranks, rank) == ranks.end()) {
        ranks.push_back(rank);
      }
    }
    std::ranges::sort(ranks);
    return ranks;
  }

  // MPI knows the tensors no more when it returns: Note [Passages].
  void take_back() {
    for (const auto& [rank, passage] : open_) {
      passage->is_withdrawn = true;
    }
    const auto is_over = [](const Opened& opened) {
      return opened.passage->is_over.load();
    };
    if (std::ranges::all_of(open_, is_over)) {
      return;
    }
    reach().hurry();
    while (!std::ranges::all_of(open_, is_over)) {
      if (!reach().help()) {
        std::this_thread::sleep_for(kLookAgain);
      }
    }
  }

  bool has_begun_ = false;
  bool has_let_go_ = false;
  size_t moved_ = 0;
  std::vector<Opened> open_;
};

class StraightAllGather final : public Straight {
 public:
  StraightAllGather(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      CommOp name)
      : Straight(context, signature_of(name, output)),
        output_(output),
        input_(input) {}

 private:
  void open_inward() override {
    for_each_other(
        [this](int from) { open_whole(from, in(from, output_, chunk(from))); });
  }
  void open_outward() override {
    const auto own = chunk(rank());
    for_each_other([&](int to) {
      open_whole(to, out(to, input_, {0, own.bytes}));
    });
    std::byte* place = bytes_of(output_) + own.offset;
    if (place != bytes_of(input_)) {
      copy_bytes(place, bytes_of(input_), own.bytes);
    }
  }

  at::Tensor output_;
  at::Tensor input_;
};

class StraightBroadcast final : public Straight {
 public:
  StraightBroadcast(
      CollectiveContext context,
      const at::Tensor& tensor,
      int root)
      : Straight(
            context,
            signature_of(CommOp::broadcast, tensor, ReduceOp::sum, root)),
        tensor_(tensor),
        root_(root) {}

 private:
  ByteRange all() const {
    return {0, static_cast<int64_t>(tensor_.nbytes())};
  }
  void open_inward() override {
    if (rank() != root_) {
      open_whole(root_, in(root_, tensor_, all()));
    }
  }
  void open_outward() override {
    if (rank() == root_) {
      for_each_other(
          [this](int to) { open_whole(to, out(to, tensor_, all())); });
    }
  }

  at::Tensor tensor_;
  int root_;
};

// In place, what comes from a rank takes the place of what goes to it. It is
// put aside until that has gone: both would otherwise wait for each other.
class StraightAllToAll final : public Straight {
 public:
  StraightAllToAll(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input)
      : Straight(context, signature_of(CommOp::all_to_all, input)),
        output_(output),
        input_(input),
        is_in_place_(bytes_of(input) == bytes_of(output)) {}

 private:
  // With one rank, in place.
  struct Exchange {
    std::shared_ptr<Passage> in;
    std::shared_ptr<Passage> out;
    std::byte* place = nullptr;
    size_t placed = 0;
  };

  void open_inward() override {
    const int64_t bytes = chunk(rank()).bytes;
    if (!is_in_place_) {
      for_each_other([&](int from) {
        open_whole(from, in(from, output_, {from * bytes, bytes}));
      });
      return;
    }
    const int64_t ring = ring_bytes(bytes);
    const at::Tensor memory = at::empty({(size() - 1) * ring}, at::kByte);
    for_each_other([&](int from) {
      const auto number = static_cast<int64_t>(exchanges_.size());
      auto passage = in(from, memory, {number * ring, bytes});
      passage->ring = kRingBytes;
      passage->ready = kRingBytes;
      open(from, passage);
      exchanges_.push_back(
          {std::move(passage), nullptr, bytes_of(output_) + from * bytes});
    });
  }
  void open_outward() override {
    size_t number = 0;
    for_each_other([&](int to) {
      auto passage = out(to, input_, chunk(to));
      open_whole(to, passage);
      if (is_in_place_) {
        exchanges_[number++].out = std::move(passage);
      }
    });
    if (!is_in_place_) {
      const auto own = chunk(rank());
      copy_bytes(
          bytes_of(output_) + rank() * own.bytes,
          bytes_of(input_) + own.offset,
          own.bytes);
    }
  }
  void work() override {
    for (Exchange& exchange : exchanges_) {
      const size_t before = exchange.placed;
      const size_t here =
          std::min(exchange.in->moved.load(), exchange.out->moved.load());
      while (exchange.placed < here) {
        const size_t at = exchange.placed % kRingBytes;
        const size_t bytes = std::min(here - exchange.placed, kRingBytes - at);
        copy_bytes(
            exchange.place + exchange.placed,
            exchange.in->data + at,
            static_cast<int64_t>(bytes));
        exchange.placed += bytes;
      }
      if (exchange.placed != before) {
        exchange.in->ready = exchange.placed + kRingBytes;
        reach().hurry();
      }
    }
  }
  bool has_worked() const override {
    return std::ranges::all_of(exchanges_, [](const Exchange& exchange) {
      return exchange.placed == exchange.in->bytes;
    });
  }

  at::Tensor output_;
  at::Tensor input_;
  bool is_in_place_;
  std::vector<Exchange> exchanges_;
};

// Adds up what all ranks have for this one's chunk.
class StraightSum : public Straight {
 protected:
  StraightSum(
      CollectiveContext context,
      const Signature& signature,
      const at::Tensor& input)
      : Straight(context, signature),
        input_(input),
        contributions_(static_cast<size_t>(size())) {}

  void open_inward() override {
    const auto own = chunk(rank());
    const int64_t ring = ring_bytes(own.bytes);
    const at::Tensor memory = at::empty({(size() - 1) * ring}, at::kByte);
    int64_t place = 0;
    for_each_other([&](int from) {
      auto passage = in(from, memory, {place, own.bytes});
      place += ring;
      passage->ring = kRingBytes;
      passage->ready = kRingBytes;
      open(from, passage);
      contributions_[static_cast<size_t>(from)] = std::move(passage);
    });
  }
  void open_outward() override {
    for_each_other([this](int to) {
      auto passage = out(to, input_, chunk(to));
      open_whole(to, passage);
      has_opened(to, passage);
    });
  }
  // What goes to a rank for its sum.
  virtual void has_opened(
      int /*to*/,
      const std::shared_ptr<Passage>& /*passage*/) {}
  // So much of the sum is there.
  virtual void has_summed(size_t /*bytes*/) {}
  virtual std::byte* sum() const = 0;

  // In the order of the ranks.
  void work() override {
    const auto own = chunk(rank());
    auto here = static_cast<size_t>(own.bytes);
    for_each_other([&](int from) {
      here = std::min(here, contribution(from).moved.load());
    });
    if (summed_ == here) {
      return;
    }
    while (summed_ < here) {
      // To the end of the ring at most.
      const size_t bytes =
          std::min(here - summed_, kRingBytes - summed_ % kRingBytes);
      std::vector<const void*> inputs;
      for (int from = 0; from < size(); ++from) {
        inputs.push_back(
            from == rank() ? bytes_of(input_) + own.offset + summed_
                           : contribution(from).data + summed_ % kRingBytes);
      }
      reduce(
          signature().reduce,
          signature().dtype,
          sum() + summed_,
          inputs.data(),
          size(),
          static_cast<int64_t>(bytes / c10::elementSize(signature().dtype)));
      summed_ += bytes;
    }
    for_each_other(
        [this](int from) { contribution(from).ready = summed_ + kRingBytes; });
    has_summed(summed_);
    reach().hurry();
  }
  bool has_worked() const override {
    return summed_ == static_cast<size_t>(chunk(rank()).bytes);
  }

  const at::Tensor& input() const {
    return input_;
  }

 private:
  Passage& contribution(int from) const {
    return *contributions_[static_cast<size_t>(from)];
  }

  at::Tensor input_;
  std::vector<std::shared_ptr<Passage>> contributions_; // by rank
  size_t summed_ = 0;
};

class StraightReduceScatter final : public StraightSum {
 public:
  StraightReduceScatter(
      CollectiveContext context,
      const at::Tensor& output,
      const at::Tensor& input,
      ReduceOp op)
      : StraightSum(
            context,
            signature_of(CommOp::reduce_scatter, input, op),
            input),
        output_(output) {}

 private:
  std::byte* sum() const override {
    return bytes_of(output_);
  }

  at::Tensor output_;
};

// The sum of a part takes its place in the tensor of its owner, whose other
// parts the others read, and then in those of the others, when what was there
// has gone to its owner.
class StraightAllReduce final : public StraightSum {
 public:
  StraightAllReduce(
      CollectiveContext context,
      const at::Tensor& tensor,
      ReduceOp op)
      : StraightSum(
            context,
            signature_of(CommOp::all_reduce, tensor, op),
            tensor) {}

 private:
  static constexpr uint64_t kSums = 1;

  void has_opened(int to, const std::shared_ptr<Passage>& passage) override {
    auto theirs = in(to, input(), chunk(to), kSums);
    theirs->after = passage;
    open_whole(to, theirs);
    sums_.push_back(out(to, input(), chunk(rank()), kSums));
    open(to, sums_.back());
  }
  void has_summed(size_t bytes) override {
    for (const auto& passage : sums_) {
      passage->ready = bytes;
    }
  }
  std::byte* sum() const override {
    return bytes_of(input()) + chunk(rank()).offset;
  }

  std::vector<std::shared_ptr<Passage>> sums_; // to the others
};

} // namespace

bool goes_straight(const CollectiveContext& context, int64_t bytes) {
  return bytes >= kStraightBytes && context.reach.are_all_apart();
}

std::shared_ptr<Operation> make_straight_all_reduce(
    CollectiveContext context,
    const at::Tensor& tensor,
    ReduceOp op) {
  return std::make_shared<StraightAllReduce>(context, tensor, op);
}

std::shared_ptr<Operation> make_straight_reduce_scatter(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op) {
  return std::make_shared<StraightReduceScatter>(context, output, input, op);
}

std::shared_ptr<Operation> make_straight_all_gather(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input,
    CommOp name) {
  return std::make_shared<StraightAllGather>(context, output, input, name);
}

std::shared_ptr<Operation> make_straight_broadcast(
    CollectiveContext context,
    const at::Tensor& tensor,
    int root) {
  return std::make_shared<StraightBroadcast>(context, tensor, root);
}

std::shared_ptr<Operation> make_straight_all_to_all(
    CollectiveContext context,
    const at::Tensor& output,
    const at::Tensor& input) {
  return std::make_shared<StraightAllToAll>(context, output, input);
}

} // namespace zero::comm

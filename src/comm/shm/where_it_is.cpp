#include "comm/shm/where_it_is.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "comm/shm/collectives.h"
#include "comm/shm/in_place.h"

namespace zero::comm {

namespace {

// From here on a copy saved is worth a handshake more.
constexpr int64_t kInPlaceBytes = 256 << 10;

// Every rank tells every other one where its tensor is.
class Locations final : public Collective {
 public:
  Locations(
      CollectiveContext context,
      const Signature& signature,
      WindowLocation own)
      : Collective(context, signature, {.number = 1}), own_(own) {}

  // By rank, when it is complete.
  const std::vector<WindowLocation>& all() const {
    return all_;
  }

 private:
  void publish(int64_t piece) override {
    std::memcpy(slot(rank(), piece), &own_, sizeof(own_));
  }
  void collect(int64_t piece) override {
    all_.resize(static_cast<size_t>(size()));
    for (int from = 0; from < size(); ++from) {
      std::memcpy(
          &all_[static_cast<size_t>(from)], slot(from, piece), sizeof(own_));
    }
  }

  WindowLocation own_;
  std::vector<WindowLocation> all_;
};

struct Ways {
  std::function<std::shared_ptr<Operation>(Tensors)> in_place;
  std::function<std::shared_ptr<Operation>()> through_slots;
};

class WhereItIs final : public Operation {
 public:
  WhereItIs(
      Group& group,
      const Signature& signature,
      const at::Tensor& tensor,
      Ways ways)
      : Operation(signature),
        group_(group),
        tensor_(tensor),
        ways_(std::move(ways)),
        locations_(group.context(), signature, group.locate(tensor)) {}

  bool advance() override {
    if (chosen_) {
      return chosen_->advance();
    }
    locations_.sequence = sequence;
    const bool moved = locations_.advance();
    if (!locations_.complete()) {
      return moved;
    }
    chosen_ = choose();
    chosen_->sequence = sequence;
    return true;
  }

  bool complete() const override {
    return chosen_ && chosen_->complete();
  }
  bool owes() const override {
    return !chosen_ || chosen_->owes();
  }
  std::vector<int> awaited() const override {
    return chosen_ ? chosen_->awaited() : locations_.awaited();
  }
  int64_t bytes_received() const override {
    return chosen_ ? chosen_->bytes_received() : 0;
  }

 private:
  std::shared_ptr<Operation> choose() {
    const auto& all = locations_.all();
    const int64_t window = all.front().window;
    const bool one_window = window >= 0 &&
        std::all_of(all.begin(), all.end(), [window](const auto& location) {
                              return location.window == window;
                            });
    if (!one_window) {
      return ways_.through_slots();
    }
    // This rank's tensor is in the window too, and keeps it mapped.
    Tensors tensors;
    for (int rank = 0; rank < group_.size(); ++rank) {
      tensors.push_back(group_.address(rank, all[static_cast<size_t>(rank)]));
    }
    return ways_.in_place(std::move(tensors));
  }

  Group& group_;
  at::Tensor tensor_;
  Ways ways_;
  Locations locations_;
  std::shared_ptr<Operation> chosen_;
};

// `tensor` is what the others would read, `whole` the buffer that is as large
// on every rank.
std::shared_ptr<Operation> make_where_it_is(
    Group& group,
    const Signature& signature,
    const at::Tensor& tensor,
    const at::Tensor& whole,
    Ways ways) {
  const auto bytes = static_cast<int64_t>(whole.nbytes());
  if (bytes < kInPlaceBytes || group.size() == 1 ||
      !group.reach().is_one_host()) {
    return ways.through_slots();
  }
  return std::make_shared<WhereItIs>(group, signature, tensor, std::move(ways));
}

} // namespace

std::shared_ptr<Operation> all_reduce(
    Group& group,
    const at::Tensor& tensor,
    ReduceOp op) {
  return make_where_it_is(
      group,
      signature_of(CommOp::all_reduce, tensor, op),
      tensor,
      tensor,
      {.in_place =
           [=, &group](Tensors tensors) {
             return all_reduce_in_place(
                 group.context(), tensor, op, std::move(tensors));
           },
       .through_slots =
           [=, &group] {
             return make_all_reduce(group.context(), tensor, op);
           }});
}

std::shared_ptr<Operation> reduce_scatter(
    Group& group,
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op) {
  return make_where_it_is(
      group,
      signature_of(CommOp::reduce_scatter, input, op),
      input,
      input,
      {.in_place =
           [=, &group](Tensors tensors) {
             return reduce_scatter_in_place(
                 group.context(), output, input, op, std::move(tensors));
           },
       .through_slots =
           [=, &group] {
             return make_reduce_scatter(group.context(), output, input, op);
           }});
}

std::shared_ptr<Operation> all_gather(
    Group& group,
    const at::Tensor& output,
    const at::Tensor& input) {
  return make_where_it_is(
      group,
      signature_of(CommOp::all_gather, output),
      input,
      output,
      {.in_place =
           [=, &group](Tensors tensors) {
             return all_gather_in_place(
                 group.context(), output, input, std::move(tensors));
           },
       .through_slots =
           [=, &group] {
             return make_all_gather(group.context(), output, input);
           }});
}

std::shared_ptr<Operation> broadcast(
    Group& group,
    const at::Tensor& tensor,
    int root) {
  return make_where_it_is(
      group,
      signature_of(CommOp::broadcast, tensor, ReduceOp::sum, root),
      tensor,
      tensor,
      {.in_place =
           [=, &group](Tensors tensors) {
             return broadcast_in_place(
                 group.context(), tensor, root, std::move(tensors));
           },
       .through_slots =
           [=, &group] {
             return make_broadcast(group.context(), tensor, root);
           }});
}

} // namespace zero::comm

#include "reduce/reducer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace zero::reduce {

using shard::Home;
using shard::Range;

namespace {

// Slots for buckets that not all ranks have reduced yet. More let ranks drift
// further apart before one waits for the other; each costs a bucket of memory.
constexpr int kNumSlots = 4;

int64_t element_bytes(const shard::Partition& partition) {
  return static_cast<int64_t>(c10::elementSize(partition.state_dtype()));
}

// The parameter's place among this rank's full gradients, in its own shape.
at::Tensor window_view(const shard::Partition& partition, int number) {
  const auto& tensor = partition.parameter(number).tensor;
  return at::from_blob(
      partition.gradient_at(
          partition.rank(), partition.layout().parameter(number).begin, 0),
      tensor.sizes(),
      tensor.strides(),
      [window = partition.window()](void*) {},
      at::TensorOptions(partition.state_dtype()));
}

} // namespace

// Words in the control window, behind those of the exchange: the round in which
// a rank last had a gradient for a parameter.
class Reducer::Flags {
 public:
  Flags(
      std::shared_ptr<comm::WindowState> control,
      int64_t offset,
      const std::vector<const shard::Partition*>& partitions)
      : control_(std::move(control)), offset_(offset) {
    for (const auto* partition : partitions) {
      first_.push_back(num_words_);
      num_words_ += static_cast<int>(partition->parameters().size());
    }
  }
  static int64_t bytes(const std::vector<const shard::Partition*>& partitions) {
    size_t count = 0;
    for (const auto* partition : partitions) {
      count += partition->parameters().size();
    }
    return static_cast<int64_t>(count * sizeof(std::atomic<uint64_t>));
  }

  void set(ParameterId id) {
    word(control_->rank, id) = round_;
  }
  bool any(ParameterId id) const {
    for (int rank = 0; rank < control_->size; ++rank) {
      if (word(rank, id) == round_) {
        return true;
      }
    }
    return false;
  }
  bool own(ParameterId id) const {
    return word(control_->rank, id) == round_;
  }
  void clear() {
    for (int i = 0; i < num_words_; ++i) {
      words(control_->rank)[i] = 0;
    }
  }
  void next_round() {
    ++round_;
  }

 private:
  std::atomic<uint64_t>* words(int rank) const {
    return reinterpret_cast<std::atomic<uint64_t>*>(
        control_->data(rank) + offset_);
  }
  std::atomic<uint64_t>& word(int rank, ParameterId id) const {
    return words(rank)[first_[static_cast<size_t>(id.partition)] + id.number];
  }

  std::shared_ptr<comm::WindowState> control_;
  int64_t offset_;
  std::vector<int> first_; // by partition
  int num_words_ = 0;
  uint64_t round_ = 1;
};

Reducer::Reducer(
    std::vector<const shard::Partition*> partitions,
    const std::shared_ptr<comm::Group>& group,
    const ReducerOptions& options)
    : partitions_(std::move(partitions)),
      group_(group),
      options_(options),
      full_gradients_(
          !partitions_.empty() &&
          partitions_.front()->gradient_home() == Home::full),
      watch_(group) {
  int64_t slot_bytes = 0;
  for (const auto* part : partitions_) {
    const int index = static_cast<int>(first_buckets_.size());
    first_buckets_.push_back(static_cast<int>(buckets_.size()));
    gradients_.emplace_back(part->parameters().size());
    set_aside_.emplace_back();
    for (int number = 0; number < part->layout().num_buckets(); ++number) {
      buckets_.push_back({.partition = index, .number = number});
      slot_bytes = std::max(
          slot_bytes,
          part->layout().bucket(number).numel() * element_bytes(*part));
    }
  }
  const int num_buckets = static_cast<int>(buckets_.size());
  const int num_slots =
      full_gradients_ ? 0 : std::clamp(num_buckets, 1, kNumSlots);
  const int64_t words = Exchange::control_bytes(num_buckets);
  control_ = comm::make_window(group, words + Flags::bytes(partitions_));
  slots_ =
      comm::make_window(group, Exchange::slots_bytes(num_slots, slot_bytes));
  flags_ = std::make_unique<Flags>(control_, words, partitions_);
  Exchange::Options exchange{
      .rank = group->rank(),
      .size = group->size(),
      .num_buckets = num_buckets,
      .num_slots = num_slots,
      .slot_bytes = slot_bytes,
      .control = {},
      .slots = {}};
  for (int rank = 0; rank < group->size(); ++rank) {
    exchange.control.push_back(control_->data(rank));
    exchange.slots.push_back(slots_->data(rank));
  }
  ExchangeHandler& handler = *this;
  exchange_ = std::make_unique<Exchange>(std::move(exchange), watch_, handler);
}

Reducer::~Reducer() = default;

template <class Visit>
void Reducer::for_each_parameter(Visit visit) const {
  for (int i = 0; i < static_cast<int>(partitions_.size()); ++i) {
    const int count = partition(i).layout().num_parameters();
    for (int number = 0; number < count; ++number) {
      visit(ParameterId{i, number});
    }
  }
}

// Calls visit(id, range) for the parameters that lie in a bucket, with the part
// that does.
template <class Visit>
void Reducer::for_each_part(const Bucket& bucket, Visit visit) const {
  const auto& layout = partition(bucket.partition).layout();
  const Range whole = layout.bucket(bucket.number);
  for (int number = layout.first_parameter(whole);
       number < layout.num_parameters() &&
       layout.parameter(number).begin < whole.end;
       ++number) {
    const Range part = intersection(layout.parameter(number), whole);
    if (!part.empty()) {
      visit(ParameterId{bucket.partition, number}, part);
    }
  }
}

void Reducer::begin_pass() {
  const std::lock_guard lock(mutex_);
  start_pass();
}

void Reducer::start_pass() {
  if (full_gradients_ && num_passes_ > 0) {
    set_aside_means();
  }
  for (auto& bucket : buckets_) {
    bucket.num_missing = 0;
  }
  for_each_parameter([&](ParameterId id) {
    gradient(id).ready = false;
    const auto& layout = partition(id.partition).layout();
    const Range range = layout.parameter(id.number);
    if (!range.empty()) {
      const int first = first_bucket(id.partition);
      for (int number = layout.first_bucket(range);
           number < layout.last_bucket(range);
           ++number) {
        ++bucket_at(first + number).num_missing;
      }
    }
  });
  exchange_->begin_pass();
}

// Another pass in the same round: what this rank's slices have so far is kept
// apart, and the window takes up the new gradients from zero.
void Reducer::set_aside_means() {
  for (size_t i = 0; i < partitions_.size(); ++i) {
    const auto& part = *partitions_[i];
    const auto& layout = part.layout();
    const int64_t bytes = element_bytes(part);
    at::Tensor means = at::empty(
        {layout.shard_numel(part.rank())},
        at::TensorOptions(part.state_dtype()));
    auto* to = static_cast<std::byte*>(means.mutable_data_ptr());
    for (int number = 0; number < layout.num_buckets(); ++number) {
      const auto slice = layout.slice(number, part.rank());
      const auto& bucket = bucket_at(first_buckets_[i] + number);
      auto* place = to + slice.shard_offset * bytes;
      const auto length = static_cast<size_t>(slice.range.numel() * bytes);
      if (bucket.reduced) {
        std::memcpy(
            place, part.gradient_at(part.rank(), slice.range.begin, 0), length);
      } else {
        std::memset(place, 0, length);
      }
    }
    set_aside_[i] = {means};
    std::memset(
        part.gradient_at(part.rank(), 0, 0),
        0,
        static_cast<size_t>(layout.numel() * bytes));
  }
  for_each_parameter([&](ParameterId id) { gradient(id).in_window = true; });
}

void Reducer::gradient_ready(ParameterId id) {
  const std::lock_guard lock(mutex_);
  const auto& tensor = partition(id.partition).parameter(id.number).tensor;
  const bool in_pass = exchange_->in_pass();
  // Late ones wait in the parameter for a pass of their own.
  if (!tensor.grad().defined() || (in_pass && gradient(id).ready) ||
      (!in_pass && !full_gradients_)) {
    return;
  }
  take(id, tensor.grad());
  if (in_pass) {
    mark_ready(id);
    exchange_->progress();
  }
}

void Reducer::take(ParameterId id, const at::Tensor& grad) {
  const auto& part = partition(id.partition);
  const auto& parameter = part.parameter(id.number);
  if (grad.layout() != at::kStrided) {
    throw ConfigError(c10::str(
        base::rank_prefix(group_->rank(), group_->size()),
        "parameter '",
        parameter.name(),
        "' has a sparse gradient, which cannot be partitioned. Fix: use dense "
        "gradients (EmbeddingOptions().sparse(false))"));
  }
  flags_->set(id);
  const c10::NoGradGuard no_grad;
  if (full_gradients_) {
    move_into_window(id, grad);
    return;
  }
  auto& held = gradient(id).held;
  if (grad.strides() == parameter.tensor.strides() &&
      grad.scalar_type() == part.state_dtype()) {
    held = grad;
  } else {
    held = at::empty_strided(
        parameter.tensor.sizes(),
        parameter.tensor.strides(),
        at::TensorOptions(part.state_dtype()));
    held.copy_(grad);
  }
  parameter.tensor.mutable_grad().reset();
}

void Reducer::move_into_window(ParameterId id, const at::Tensor& grad) {
  const auto& part = partition(id.partition);
  auto& state = gradient(id);
  at::Tensor view = window_view(part, id.number);
  if (grad.const_data_ptr() != view.const_data_ptr()) {
    if (state.in_window) {
      view.add_(grad);
    } else {
      view.copy_(grad);
    }
  }
  state.in_window = true;
  // During a pass others may read it, so that autograd must not add to it.
  const auto& tensor = part.parameter(id.number).tensor;
  if (exchange_->in_pass() || part.dtype() != part.state_dtype()) {
    tensor.mutable_grad().reset();
  } else {
    tensor.mutable_grad() = view;
  }
}

void Reducer::mark_ready(ParameterId id) {
  auto& state = gradient(id);
  state.ready = true;
  const auto& layout = partition(id.partition).layout();
  const Range range = layout.parameter(id.number);
  if (range.empty()) {
    return;
  }
  const int first = first_bucket(id.partition) + layout.first_bucket(range);
  const int last = first_bucket(id.partition) + layout.last_bucket(range);
  state.num_unpublished = last - first;
  for (int bucket = first; bucket < last; ++bucket) {
    auto& missing = bucket_at(bucket).num_missing;
    if (--missing == 0 && options_.overlap) {
      publish(bucket);
    }
  }
}

void Reducer::publish(int bucket) {
  if (!exchange_->publish(bucket)) {
    const auto& kept = bucket_at(bucket);
    const auto& part = partition(kept.partition);
    spilled_bytes_ +=
        part.layout().bucket(kept.number).numel() * element_bytes(part);
  }
}

void Reducer::fill(int number, std::byte* to) {
  const auto& bucket = bucket_at(number);
  const auto& part = partition(bucket.partition);
  const int64_t bytes = element_bytes(part);
  const Range whole = part.layout().bucket(bucket.number);
  int64_t at = whole.begin;
  const auto zero_until = [&](int64_t end) {
    std::memset(
        to + (at - whole.begin) * bytes,
        0,
        static_cast<size_t>((end - at) * bytes));
    at = end;
  };
  for_each_part(bucket, [&](ParameterId id, Range range) {
    zero_until(range.begin); // padding
    auto& state = gradient(id);
    if (!state.held.defined()) {
      zero_until(range.end);
      return;
    }
    const int64_t offset =
        range.begin - part.layout().parameter(id.number).begin;
    std::memcpy(
        to + (at - whole.begin) * bytes,
        static_cast<const std::byte*>(state.held.const_data_ptr()) +
            offset * bytes,
        static_cast<size_t>(range.numel() * bytes));
    at = range.end;
    if (--state.num_unpublished == 0) {
      state.held.reset();
    }
  });
  zero_until(whole.end);
}

void Reducer::reduce(
    int number,
    const std::vector<Contribution>& contributions) {
  auto& bucket = bucket_at(number);
  const auto& part = partition(bucket.partition);
  const auto slice = part.layout().slice(bucket.number, part.rank());
  const int64_t bytes = element_bytes(part);
  const int64_t offset =
      slice.range.begin - part.layout().bucket(bucket.number).begin;
  std::vector<const void*> inputs;
  int64_t received = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    const auto& given = contributions[static_cast<size_t>(rank)];
    if (given.kind == Contribution::Kind::nothing) {
      continue;
    }
    inputs.push_back(
        given.kind == Contribution::Kind::slot
            ? given.data + offset * bytes
            : part.gradient_at(rank, slice.range.begin, 0));
    received += rank == part.rank() ? 0 : slice.range.numel() * bytes;
  }
  group_->traffic()->count(CommOp::reduce_scatter, received);
  std::byte* out =
      part.gradient_at(part.rank(), slice.range.begin, slice.shard_offset);
  const std::byte* addend = bucket.reduced ? out : nullptr;
  const auto& aside = set_aside_[static_cast<size_t>(bucket.partition)];
  const bool gave = contributions[static_cast<size_t>(part.rank())].kind !=
      Contribution::Kind::nothing;
  if (full_gradients_ && gave) {
    // `out` has this rank's own gradient; what there was is aside.
    addend = aside.empty()
        ? nullptr
        : static_cast<const std::byte*>(aside.front().const_data_ptr()) +
            slice.shard_offset * bytes;
  }
  if (!inputs.empty()) {
    bucket.reduced = true;
    mean(
        part.state_dtype(),
        out,
        addend,
        inputs.data(),
        static_cast<int>(inputs.size()),
        slice.range.numel(),
        options_.scale);
  }
}

void Reducer::finish_pass() {
  const std::lock_guard lock(mutex_);
  collect_the_rest();
  end_pass();
  while (has_late_gradients()) {
    start_pass();
    collect_the_rest();
    end_pass();
  }
  if (full_gradients_) {
    show_gradients();
  }
}

// Gradients of earlier micro-steps, or late ones.
void Reducer::collect_the_rest() {
  for_each_parameter([&](ParameterId id) {
    auto& state = gradient(id);
    const auto& grad =
        partition(id.partition).parameter(id.number).tensor.grad();
    if (state.ready || (!grad.defined() && !state.in_window)) {
      return;
    }
    if (grad.defined()) {
      take(id, grad);
    }
    mark_ready(id);
  });
}

bool Reducer::has_late_gradients() const {
  bool any = false;
  for_each_parameter([&](ParameterId id) {
    any = any ||
        partition(id.partition).parameter(id.number).tensor.grad().defined();
  });
  return any;
}

void Reducer::end_pass() {
  // Buckets that are published in place are read whole.
  for_each_parameter([&](ParameterId id) {
    const auto& part = partition(id.partition);
    if (full_gradients_ && !gradient(id).in_window) {
      const Range range = part.layout().parameter(id.number);
      std::memset(
          part.gradient_at(part.rank(), range.begin, 0),
          0,
          static_cast<size_t>(range.numel() * element_bytes(part)));
    }
  });
  exchange_->finish_pass([&](int bucket) {
    bool any = false;
    for_each_part(bucket_at(bucket), [&](ParameterId id, Range) {
      any = any || gradient(id).ready;
    });
    return any;
  });
  ++num_passes_;
}

void Reducer::show_gradients() {
  for_each_parameter([&](ParameterId id) {
    const auto& part = partition(id.partition);
    if (flags_->own(id) && part.dtype() == part.state_dtype()) {
      part.parameter(id.number).tensor.mutable_grad() =
          window_view(part, id.number);
    }
  });
}

void Reducer::close_round() {
  const std::lock_guard lock(mutex_);
  exchange_->close_round();
  // Read once: a rank that is done with the round clears its flags.
  for_each_parameter(
      [&](ParameterId id) { gradient(id).anywhere = flags_->any(id); });
}

bool Reducer::has_gradient(ParameterId id) const {
  return gradients_[static_cast<size_t>(id.partition)]
                   [static_cast<size_t>(id.number)]
                       .anywhere;
}

at::Tensor Reducer::full_gradient(ParameterId id) const {
  const std::lock_guard lock(mutex_);
  if (!flags_->any(id)) {
    return {};
  }
  const auto& part = partition(id.partition);
  const auto& tensor = part.parameter(id.number).tensor;
  at::Tensor gradient = at::empty_strided(
      tensor.sizes(), tensor.strides(), at::TensorOptions(part.state_dtype()));
  auto* to = static_cast<std::byte*>(gradient.mutable_data_ptr());
  const int64_t bytes = element_bytes(part);
  const Range range = part.layout().parameter(id.number);
  part.layout().for_each_slice(range, [&](const shard::OwnedSlice& slice) {
    std::memcpy(
        to + (slice.range.begin - range.begin) * bytes,
        part.gradient_at(slice.rank, slice.range.begin, slice.shard_offset),
        static_cast<size_t>(slice.range.numel() * bytes));
  });
  return gradient;
}

void Reducer::gather_means() {
  const std::lock_guard lock(mutex_);
  for (const auto* part : partitions_) {
    const int64_t bytes = element_bytes(*part);
    int64_t received = 0;
    part->layout().for_each_slice(
        {0, part->layout().numel()}, [&](const shard::OwnedSlice& slice) {
          if (slice.rank == part->rank()) {
            return;
          }
          const int64_t length = slice.range.numel() * bytes;
          std::memcpy(
              part->gradient_at(part->rank(), slice.range.begin, 0),
              part->gradient_at(slice.rank, slice.range.begin, 0),
              static_cast<size_t>(length));
          received += length;
        });
    group_->traffic()->count(CommOp::all_gather, received);
  }
}

void Reducer::discard() {
  const std::lock_guard lock(mutex_);
  for_each_parameter([&](ParameterId id) {
    gradient(id) = {};
    partition(id.partition).parameter(id.number).tensor.mutable_grad().reset();
  });
  for (auto& bucket : buckets_) {
    bucket.reduced = false;
  }
  for (auto& means : set_aside_) {
    means.clear();
  }
  num_passes_ = 0;
  flags_->clear();
}

void Reducer::next_round() {
  discard();
  flags_->next_round();
  last_spilled_bytes_ = std::exchange(spilled_bytes_, 0);
}

int64_t Reducer::spilled_bytes() const {
  const std::lock_guard lock(mutex_);
  return std::max(spilled_bytes_, last_spilled_bytes_);
}

int64_t Reducer::buffer_bytes() const {
  return slots_->bytes[static_cast<size_t>(group_->rank())];
}

bool Reducer::has_unreduced_gradients() const {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for_each_parameter([&](ParameterId id) {
    // What is in the window has been reduced by the last pass, if there was
    // one.
    const auto& grad =
        partition(id.partition).parameter(id.number).tensor.grad();
    any = any || (grad.defined() && !is_reduced(id, grad));
  });
  return any;
}

bool Reducer::is_reduced(ParameterId id, const at::Tensor& grad) const {
  return full_gradients_ && num_passes_ > 0 &&
      grad.const_data_ptr() ==
      window_view(partition(id.partition), id.number).const_data_ptr();
}

void Reducer::check_all_have_gradients() const {
  std::string unused;
  for_each_parameter([&](ParameterId id) {
    if (!has_gradient(id)) {
      unused += c10::str(
          "\n  '", partition(id.partition).parameter(id.number).name(), "'");
    }
  });
  if (!unused.empty()) {
    throw ConfigError(c10::str(
        base::rank_prefix(group_->rank(), group_->size()),
        "no rank has a gradient for these parameters:",
        unused,
        "\nFix: use them in the forward, freeze them, or set "
        "zero_optimization.ignore_unused_parameters to true"));
  }
}

} // namespace zero::reduce

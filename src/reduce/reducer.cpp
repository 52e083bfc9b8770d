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
#include "optim/norm.h"

namespace zero::reduce {

using shard::Home;
using shard::OwnedSlice;
using shard::Range;

namespace {

// Slots for buckets that not all ranks have reduced yet. More let ranks drift
// further apart before one waits for the other; each costs a bucket of memory.
constexpr int kNumSlots = 4;

// Of a quarter of the second-level cache.
constexpr int64_t kBlockNumel = 64 << 10;

const std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

// Of this rank's slice, where its mean belongs.
std::byte* place_of(
    const shard::Partition& partition,
    const OwnedSlice& slice) {
  return partition.gradient_at(
      partition.rank(), slice.range.begin, slice.shard_offset);
}

} // namespace

Reducer::Reducer(
    const std::vector<const shard::Partition*>& partitions,
    const std::shared_ptr<comm::Group>& group,
    const ReducerOptions& options)
    : group_(group), options_(options), watch_(group) {
  for (const auto* part : partitions) {
    partitions_.push_back(part);
    add_buckets(*part);
  }
  connect();
}

void Reducer::add(const shard::Partition* partition) {
  const std::lock_guard lock(mutex_);
  partitions_.push_back(partition);
  add_buckets(*partition);
  connect();
}

void Reducer::add_buckets(const shard::Partition& part) {
  const int index = static_cast<int>(first_buckets_.size());
  first_buckets_.push_back(static_cast<int>(buckets_.size()));
  gradients_.emplace_back(part.parameters().size());
  set_aside_.emplace_back();
  for (int number = 0; number < part.layout().num_buckets(); ++number) {
    buckets_.push_back({.partition = index, .number = number});
  }
}

// Makes what the ranks share for the buckets there are.
void Reducer::connect() {
  full_gradients_ = !partitions_.empty() &&
      partitions_.front()->gradient_home() == Home::full;
  int64_t slot_bytes = 0;
  for (const auto& bucket : buckets_) {
    const auto& part = partition(bucket.partition);
    slot_bytes = std::max(
        slot_bytes,
        part.layout().bucket(bucket.number).numel() *
            part.state_element_bytes());
  }
  const int num_buckets = static_cast<int>(buckets_.size());
  const int num_slots =
      full_gradients_ ? 0 : std::clamp(num_buckets, 1, kNumSlots);
  const int64_t words = Exchange::control_bytes(num_buckets);
  const auto control =
      comm::make_window(group_, words + GradientFlags::bytes(partitions_));
  slots_ =
      comm::make_window(group_, Exchange::slots_bytes(num_slots, slot_bytes));
  auto flags = std::make_unique<GradientFlags>(control, words, partitions_);
  if (flags_) {
    flags->take_over(*flags_);
  }
  flags_ = std::move(flags);
  Exchange::Options exchange{
      .rank = group_->rank(),
      .size = group_->size(),
      .num_buckets = num_buckets,
      .num_slots = num_slots,
      .slot_bytes = slot_bytes,
      .control = {},
      .slots = {}};
  for (int rank = 0; rank < group_->size(); ++rank) {
    exchange.control.push_back(control->data(rank));
    exchange.slots.push_back(slots_->data(rank));
  }
  ExchangeHandler& handler = *this;
  exchange_ = std::make_unique<Exchange>(std::move(exchange), watch_, handler);
}

Reducer::~Reducer() = default;

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
    const int64_t bytes = part.state_element_bytes();
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
  at::Tensor view = part.gradient_view(id.number);
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
  state.num_unreduced = last - first;
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
        part.layout().bucket(kept.number).numel() * part.state_element_bytes();
  }
}

void Reducer::fill(int number, std::byte* to) {
  const auto& bucket = bucket_at(number);
  const auto& part = partition(bucket.partition);
  const int64_t bytes = part.state_element_bytes();
  const Range whole = part.layout().bucket(bucket.number);
  const Range own = part.layout().slice(bucket.number, part.rank()).range;
  for_each_part(bucket, [&](ParameterId id, Range range) {
    const int64_t begin = part.layout().parameter(id.number).begin;
    for (const Range others :
         {Range{range.begin, std::min(range.end, own.begin)},
          Range{std::max(range.begin, own.end), range.end}}) {
      if (others.empty()) {
        continue;
      }
      std::byte* place = to + (others.begin - whole.begin) * bytes;
      const auto length = static_cast<size_t>(others.numel() * bytes);
      if (const auto& held = gradient(id).held; held.defined()) {
        std::memcpy(
            place, data_of(held) + (others.begin - begin) * bytes, length);
      } else {
        std::memset(place, 0, length);
      }
    }
  });
}

void Reducer::reduce(
    int number,
    const std::vector<Contribution>& contributions) {
  auto& bucket = bucket_at(number);
  const auto& part = partition(bucket.partition);
  const auto slice = part.layout().slice(bucket.number, part.rank());
  const int64_t bytes = part.state_element_bytes();
  int num_given = 0;
  for (const auto& given : contributions) {
    num_given += given.kind == Contribution::Kind::nothing ? 0 : 1;
  }
  if (num_given == 0) {
    return;
  }
  const bool gave = contributions[static_cast<size_t>(part.rank())].kind !=
      Contribution::Kind::nothing;
  group_->traffic()->count(
      CommOp::reduce_scatter,
      (num_given - (gave ? 1 : 0)) * slice.range.numel() * bytes);

  const bool adds = std::exchange(bucket.reduced, true);
  bucket.norm_power_sum = 0;
  std::vector<const std::byte*> inputs;
  if (full_gradients_) {
    for (int rank = 0; rank < group_->size(); ++rank) {
      if (contributions[static_cast<size_t>(rank)].kind !=
          Contribution::Kind::nothing) {
        inputs.push_back(part.gradient_at(rank, slice.range.begin, 0));
      }
    }
    const std::byte* addend = adds ? place_of(part, slice) : nullptr;
    if (gave) {
      // That place has this rank's own gradient; what there was is aside.
      const auto& aside = set_aside_[static_cast<size_t>(bucket.partition)];
      addend = aside.empty()
          ? nullptr
          : data_of(aside.front()) + slice.shard_offset * bytes;
    }
    reduce_part(bucket, slice, inputs, addend);
    return;
  }
  const int64_t bucket_begin = part.layout().bucket(bucket.number).begin;
  for_each_part(bucket, [&](ParameterId id, Range range) {
    const Range own = intersection(range, slice.range);
    if (own.empty()) {
      return;
    }
    inputs.clear();
    for (int rank = 0; rank < group_->size(); ++rank) {
      const auto& given = contributions[static_cast<size_t>(rank)];
      if (given.kind == Contribution::Kind::nothing) {
        continue;
      }
      if (rank != part.rank()) {
        inputs.push_back(given.data + (own.begin - bucket_begin) * bytes);
      } else if (const auto& held = gradient(id).held; held.defined()) {
        const int64_t begin = part.layout().parameter(id.number).begin;
        inputs.push_back(data_of(held) + (own.begin - begin) * bytes);
      }
    }
    const OwnedSlice owned{
        .rank = part.rank(),
        .range = own,
        .shard_offset = slice.shard_offset + own.begin - slice.range.begin};
    reduce_part(bucket, owned, inputs, adds ? place_of(part, owned) : nullptr);
  });
  let_go_of_held(bucket);
}

// In blocks, so that the norm finds what the mean has just written in the
// cache.
void Reducer::reduce_part(
    Bucket& bucket,
    const OwnedSlice& slice,
    const std::vector<const std::byte*>& inputs,
    const std::byte* addend) const {
  const auto& part = partition(bucket.partition);
  const int64_t bytes = part.state_element_bytes();
  std::byte* out = place_of(part, slice);
  std::vector<const void*> moved(inputs.size());
  for (int64_t begin = 0; begin < slice.range.numel(); begin += kBlockNumel) {
    const int64_t numel = std::min(kBlockNumel, slice.range.numel() - begin);
    const int64_t offset = begin * bytes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      moved[i] = inputs[i] + offset;
    }
    mean(
        part.state_dtype(),
        out + offset,
        addend == nullptr ? nullptr : addend + offset,
        moved.data(),
        static_cast<int>(moved.size()),
        numel,
        options_.scale);
    const at::Tensor block = at::from_blob(
        out + offset, {numel}, at::TensorOptions(part.state_dtype()));
    bucket.norm_power_sum = optim::combine(
        bucket.norm_power_sum,
        optim::norm_power_sum(block, options_.norm_type),
        options_.norm_type);
  }
}

void Reducer::let_go_of_held(const Bucket& bucket) {
  for_each_part(bucket, [&](ParameterId id, Range) {
    auto& state = gradient(id);
    if (state.held.defined() && --state.num_unreduced == 0) {
      state.held.reset();
    }
  });
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
          static_cast<size_t>(range.numel() * part.state_element_bytes()));
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
          part.gradient_view(id.number);
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

} // namespace zero::reduce

#include "reduce/reducer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <exception>
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
// What comes from other hosts takes longer than backward does: with few slots
// backward would wait for the wire, which in turn has nothing to carry when
// backward comes to a layer that takes long.
constexpr int kNumSlotsBetweenHosts = 24;

void ring_ranks_here(const comm::WindowState& control) {
  for (int rank = 0; rank < control.size; ++rank) {
    if (control.is_here(rank)) {
      Exchange::bell(control.data(rank)).ring();
    }
  }
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
  const int most_slots =
      group_->reach().is_one_host() ? kNumSlots : kNumSlotsBetweenHosts;
  const int num_slots =
      full_gradients_ ? 0 : std::clamp(num_buckets, 1, most_slots);
  const int64_t words = Exchange::control_bytes(num_buckets);
  const auto control = comm::make_window(
      group_,
      words + GradientFlags::bytes(partitions_),
      {.arrived = ring_ranks_here});
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
      .slots = {},
      .reach = control->reach};
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
    refuse(parameter, grad.layout());
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

// Without it the pass goes on, so that the others do not wait.
void Reducer::refuse(const shard::Parameter& parameter, at::Layout layout)
    const {
  parameter.tensor.mutable_grad().reset();
  throw ConfigError(c10::str(
      base::rank_prefix(group_->rank(), group_->size()),
      "parameter '",
      parameter.name(),
      "' got a gradient of layout ",
      layout,
      ", which cannot be partitioned. Fix: make its layer with sparse(false)"));
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

void Reducer::finish_pass() {
  const std::lock_guard lock(mutex_);
  std::exception_ptr refused;
  collect_the_rest(refused);
  end_pass();
  while (has_late_gradients()) {
    start_pass();
    collect_the_rest(refused);
    end_pass();
  }
  if (full_gradients_) {
    show_gradients();
  }
  if (refused) {
    std::rethrow_exception(refused);
  }
}

// Gradients of earlier micro-steps, or late ones. `refused` is what was wrong
// with one.
void Reducer::collect_the_rest(std::exception_ptr& refused) {
  for_each_parameter([&](ParameterId id) {
    auto& state = gradient(id);
    const auto& grad =
        partition(id.partition).parameter(id.number).tensor.grad();
    if (state.ready || (!grad.defined() && !state.in_window)) {
      return;
    }
    try {
      if (grad.defined()) {
        take(id, grad);
      }
      mark_ready(id);
    } catch (const ConfigError&) {
      refused = std::current_exception();
    }
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

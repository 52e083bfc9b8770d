// What a round has brought: the means, for whoever asks the Reducer.
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "optim/norm.h"
#include "reduce/reducer.h"

namespace zero::reduce {

using shard::Range;

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
  const int64_t bytes = part.state_element_bytes();
  const Range range = part.layout().parameter(id.number);
  std::vector<comm::WindowRead> reads;
  part.layout().for_each_slice(range, [&](const shard::OwnedSlice& slice) {
    reads.push_back(
        {.rank = slice.rank,
         .place = part.gradient_at(
             slice.rank, slice.range.begin, slice.shard_offset),
         .to = to + (slice.range.begin - range.begin) * bytes,
         .bytes = slice.range.numel() * bytes});
  });
  comm::WindowReading(*part.window(), std::move(reads)).wait();
  return gradient;
}

void Reducer::gather_means() {
  const std::lock_guard lock(mutex_);
  for (const auto* part : partitions_) {
    const int64_t bytes = part->state_element_bytes();
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
          // It came once for all ranks of this host, of which one counts it.
          const auto& reach = group_->reach();
          const bool is_counted = !reach.is_here(slice.rank) &&
              reach.hosts().counterpart(slice.rank, reach.host()) ==
                  part->rank();
          group_->traffic()->count_from_other_hosts(is_counted ? length : 0);
        });
    group_->traffic()->count(CommOp::all_gather, received);
  }
}

double Reducer::norm_power_sum() const {
  double total = 0;
  for (const auto& bucket : buckets_) {
    if (bucket.reduced) {
      total = optim::combine(total, bucket.norm_power_sum, options_.norm_type);
    }
  }
  return total;
}

int64_t Reducer::spilled_bytes() const {
  const std::lock_guard lock(mutex_);
  return std::max(spilled_bytes_, last_spilled_bytes_);
}

int64_t Reducer::buffer_bytes() const {
  return slots_->bytes[static_cast<size_t>(group_->rank())];
}

int64_t Reducer::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for_each_parameter([&](ParameterId id) {
    const auto& grad =
        partition(id.partition).parameter(id.number).tensor.grad();
    if (grad.defined() && !full_gradients_) {
      bytes += static_cast<int64_t>(grad.nbytes());
    }
  });
  return bytes;
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
  return full_gradients_ && num_passes_ > 0 && grad.layout() == at::kStrided &&
      grad.const_data_ptr() ==
      partition(id.partition).gradient_view(id.number).const_data_ptr();
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

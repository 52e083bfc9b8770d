// What the Reducer gives to other ranks for a bucket, and how it makes the mean
// of its own slice.
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/activity.h"
#include "optim/norm.h"
#include "reduce/reducer.h"

namespace zero::reduce {

using shard::OwnedSlice;
using shard::Range;

namespace {

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

void Reducer::fill(int number, std::byte* to) {
  const base::Span span(base::Activity::reduce);
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
  const base::Span span(base::Activity::reduce);
  auto& bucket = bucket_at(number);
  const auto& part = partition(bucket.partition);
  const auto slice = part.layout().slice(bucket.number, part.rank());
  const int64_t bytes = part.state_element_bytes();
  int num_given = 0;
  int num_from_other_hosts = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (contributions[static_cast<size_t>(rank)].kind !=
        Contribution::Kind::nothing) {
      ++num_given;
      num_from_other_hosts += group_->reach().is_here(rank) ? 0 : 1;
    }
  }
  if (num_given == 0) {
    return;
  }
  const bool gave = contributions[static_cast<size_t>(part.rank())].kind !=
      Contribution::Kind::nothing;
  group_->traffic()->count(
      CommOp::reduce_scatter,
      (num_given - (gave ? 1 : 0)) * slice.range.numel() * bytes);
  group_->traffic()->count_from_other_hosts(
      num_from_other_hosts * slice.range.numel() * bytes);

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
    if (part.state_home() == shard::Home::full) { // all of them update with it
      part.window()->store(place_of(part, slice), slice.range.numel() * bytes);
    }
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

void Reducer::join(
    int number,
    const std::vector<Contribution>& contributions,
    int first) {
  const base::Span span(base::Activity::reduce);
  const auto& bucket = bucket_at(number);
  const auto& part = partition(bucket.partition);
  const auto& layout = part.layout();
  const int64_t bytes = part.state_element_bytes();
  const int64_t bucket_begin = layout.bucket(bucket.number).begin;
  const auto& window = full_gradients_ ? *part.window() : *slots_;
  const auto& reach = *window.reach;
  for (int to = 0; to < group_->size(); ++to) {
    const Range range = layout.slice(bucket.number, to).range;
    if (reach.is_here(to) || range.empty() ||
        reach.hosts().counterpart(to, reach.host()) != part.rank()) {
      continue;
    }
    const auto place = [&](int rank) {
      const auto& given = contributions[static_cast<size_t>(rank)];
      return given.kind == Contribution::Kind::in_place
          ? part.gradient_at(rank, range.begin, 0)
          : const_cast<std::byte*>(given.data) +
              (range.begin - bucket_begin) * bytes;
    };
    std::vector<const void*> inputs;
    for (int rank = first; rank < group_->size(); ++rank) {
      if (contributions[static_cast<size_t>(rank)].kind !=
          Contribution::Kind::nothing) {
        inputs.push_back(place(rank));
      }
    }
    const int count = static_cast<int>(inputs.size());
    if (count > 1) {
      mean(
          part.state_dtype(),
          place(first),
          nullptr,
          inputs.data(),
          count,
          range.numel(),
          MeanScale{});
    }
    group_->traffic()->count(
        CommOp::reduce_scatter, (count - 1) * range.numel() * bytes);
    reach.store(place(first), range.numel() * bytes, reach.hosts().host_of(to));
  }
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

} // namespace zero::reduce

#include "shard/layout.h"

#include <algorithm>
#include <numeric>

#include "base/alignment.h"
#include "base/error.h"

namespace zero::shard {

namespace {

// The elements of a bucket that come before a rank's slice.
int64_t slice_begin(int64_t bucket_numel, int rank, int num_ranks) {
  const int64_t chunk = (bucket_numel + num_ranks - 1) / num_ranks;
  return std::min(bucket_numel, chunk * rank);
}

} // namespace

Range intersection(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

Layout::Layout(const Options& options) : num_ranks_(options.num_ranks) {
  ZERO_CHECK(options.num_ranks > 0 && options.bucket_numel > 0);
  int64_t used = 0;
  for (const int64_t numel : options.numels) {
    parameters_.push_back({numel_, numel_ + numel});
    numel_ += base::round_up(numel, kAlignment);
    used += numel;
  }
  padding_ = numel_ - used;
  // Slices of full buckets are equal, and begin where vectors do.
  const int64_t unit = kAlignment * num_ranks_;
  bucket_numel_ = std::max(unit, options.bucket_numel / unit * unit);
  num_buckets_ = static_cast<int>((numel_ + bucket_numel_ - 1) / bucket_numel_);
}

int Layout::first_parameter(Range range) const {
  const auto found = std::partition_point(
      parameters_.begin(), parameters_.end(), [&](const Range& parameter) {
        return parameter.end <= range.begin;
      });
  return static_cast<int>(found - parameters_.begin());
}

Range Layout::bucket(int number) const {
  const int64_t begin = number * bucket_numel_;
  return {begin, std::min(begin + bucket_numel_, numel_)};
}

int Layout::first_bucket(Range range) const {
  return static_cast<int>(range.begin / bucket_numel_);
}

int Layout::last_bucket(Range range) const {
  return static_cast<int>((range.end - 1) / bucket_numel_) + 1;
}

OwnedSlice Layout::slice(int bucket_number, int rank) const {
  const Range whole = bucket(bucket_number);
  const int64_t numel = whole.numel();
  const Range range{
      whole.begin + slice_begin(numel, rank, num_ranks_),
      whole.begin + slice_begin(numel, rank + 1, num_ranks_)};
  return {rank, range, bucket_number * (bucket_numel_ / num_ranks_)};
}

int64_t Layout::shard_numel(int rank) const {
  if (num_buckets_ == 0) {
    return 0;
  }
  const OwnedSlice last = slice(num_buckets_ - 1, rank);
  return last.shard_offset + last.range.numel();
}

} // namespace zero::shard

// Defines Layout: where parameters of one type lie in a flat space, how that
// space is cut into buckets, and which rank owns which part of it. Arithmetic
// only; every rank computes the same.
//
// Note [Flat space]
// Parameters lie one after another, each from a multiple of kAlignment elements
// on, in the order in which backward usually completes their gradients. The
// space is cut into buckets of equal size, and each bucket into one slice for
// each rank: so all ranks reduce at once, whichever layer backward is in, and
// own equal shares, whatever the sizes of parameters. A rank's shard is its
// slices one after another.
//
//   Layout layout({.numels = {1000, 24}, .num_ranks = 2, .bucket_numel = 256});
//   layout.for_each_slice(layout.parameter(1), [](const OwnedSlice& s) {...});
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zero::shard {

// Elements of the flat space, [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t numel() const {
    return end - begin;
  }
  bool empty() const {
    return end <= begin;
  }
};

Range intersection(Range a, Range b);

// A part of the flat space that one rank owns.
struct OwnedSlice {
  int rank = 0;
  Range range;
  int64_t shard_offset = 0; // where it begins in that rank's shard
};

class Layout {
 public:
  // Parameters begin on cache lines, for types of 4 bytes.
  static constexpr int64_t kAlignment = 16;

  struct Options {
    std::vector<int64_t> numels; // of the parameters, in order
    int num_ranks = 1;
    int64_t bucket_numel = 1; // at most
  };
  explicit Layout(const Options& options);

  int num_ranks() const {
    return num_ranks_;
  }
  int num_parameters() const {
    return static_cast<int>(parameters_.size());
  }
  // Without the padding behind it.
  Range parameter(int number) const {
    return parameters_[static_cast<size_t>(number)];
  }
  // The first one that reaches into or lies behind a range.
  int first_parameter(Range range) const;
  int64_t numel() const { // with padding
    return numel_;
  }
  int64_t padding() const {
    return padding_;
  }

  int num_buckets() const {
    return num_buckets_;
  }
  int64_t bucket_numel() const { // of all but the last
    return bucket_numel_;
  }
  Range bucket(int number) const;
  // The first bucket of a range that is not empty, and the one after its last.
  int first_bucket(Range range) const;
  int last_bucket(Range range) const;

  // The part of a bucket that a rank owns.
  OwnedSlice slice(int bucket, int rank) const;
  int64_t shard_numel(int rank) const;

  // Calls visit(const OwnedSlice&) for all parts of a range, in its order.
  template <class Visit>
  void for_each_slice(Range range, Visit visit) const {
    if (range.empty()) {
      return;
    }
    for (int number = first_bucket(range); number < last_bucket(range);
         ++number) {
      for (int rank = 0; rank < num_ranks_; ++rank) {
        OwnedSlice owned = slice(number, rank);
        const Range part = intersection(owned.range, range);
        if (!part.empty()) {
          owned.shard_offset += part.begin - owned.range.begin;
          owned.range = part;
          visit(owned);
        }
      }
    }
  }

 private:
  int num_ranks_;
  std::vector<Range> parameters_;
  int64_t numel_ = 0;
  int64_t padding_ = 0;
  int64_t bucket_numel_ = 1;
  int num_buckets_ = 0;
};

} // namespace zero::shard

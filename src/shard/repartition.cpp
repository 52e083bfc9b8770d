#include "shard/repartition.h"

#include <cstring>

#include "base/error.h"

namespace zero::shard {

namespace {

// Both lay their parameters out in the same flat space, which is divided
// otherwise.
class Copier {
 public:
  Copier(const Partition& from, const Partition& to, int source, int rank)
      : from_(from), to_(to), source_(source), rank_(rank) {}

  void parameters(const OwnedSlice& slice) const {
    from_.layout().for_each_slice(slice.range, [&](const OwnedSlice& part) {
      const int holder =
          from_.parameter_home() == Home::full ? source_ : part.rank;
      std::memcpy(
          to_.parameter_at(
              rank_, part.range.begin, offset_in_shard(slice, part)),
          from_.parameter_at(holder, part.range.begin, part.shard_offset),
          static_cast<size_t>(part.range.numel() * from_.element_bytes()));
    });
  }

  void states(const OwnedSlice& slice) const {
    from_.layout().for_each_slice(slice.range, [&](const OwnedSlice& part) {
      const int holder = from_.state_home() == Home::full ? source_ : part.rank;
      for (int state = 0; state < from_.num_states(); ++state) {
        std::memcpy(
            to_.state_at(
                rank_, state, part.range.begin, offset_in_shard(slice, part)),
            from_.state_at(holder, state, part.range.begin, part.shard_offset),
            static_cast<size_t>(
                part.range.numel() * from_.state_element_bytes()));
      }
    });
  }

 private:
  static int64_t offset_in_shard(
      const OwnedSlice& slice,
      const OwnedSlice& part) {
    return slice.shard_offset + part.range.begin - slice.range.begin;
  }

  const Partition& from_;
  const Partition& to_;
  int source_;
  int rank_;
};

} // namespace

void repartition(
    const Partition& from,
    const Partition& to,
    int source,
    int rank) {
  ZERO_CHECK(
      from.layout().numel() == to.layout().numel() &&
      from.parameters().size() == to.parameters().size());
  const Copier copier(from, to, source, rank);
  const OwnedSlice all{.rank = rank, .range = {0, to.layout().numel()}};
  const auto for_each_own = [&](Home home, auto visit) {
    if (home == Home::full) {
      visit(all);
      return;
    }
    for (int bucket = 0; bucket < to.layout().num_buckets(); ++bucket) {
      visit(to.layout().slice(bucket, rank));
    }
  };
  for_each_own(to.parameter_home(), [&](const OwnedSlice& slice) {
    copier.parameters(slice);
  });
  if (to.trainable()) {
    for_each_own(to.state_home(), [&](const OwnedSlice& slice) {
      copier.states(slice);
    });
  }
}

} // namespace zero::shard

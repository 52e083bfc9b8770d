#include "shard/repartition.h"

#include "base/checksum.h"
#include "base/error.h"

namespace zero::shard {

namespace {

// Over several hosts the slices of a copy are the owners' business, if there
// are owners: what they sent may not have come. On one host every copy is
// whole.
bool is_a_copy(const Partition& from, Home home) {
  if (home == Home::full && !from.window()->reach) {
    return true;
  }
  return (home == Home::full || home == Home::once) &&
      from.state_home() != Home::shard;
}

// Both lay their parameters out in the same flat space, which is divided
// otherwise. What comes from other hosts is under way all at once.
class Copier {
 public:
  Copier(
      const Partition& from,
      const Partition& to,
      const Holders& holders,
      int rank)
      : from_(from), to_(to), holders_(holders), rank_(rank) {}

  void parameters(const OwnedSlice& slice) {
    const bool is_copy = is_a_copy(from_, from_.parameter_home());
    from_.layout().for_each_slice(slice.range, [&](const OwnedSlice& part) {
      const int owner = is_copy ? holders_.of_copies : part.rank;
      add(owner,
          from_.parameter_at(owner, part.range.begin, part.shard_offset),
          to_.parameter_at(
              rank_, part.range.begin, offset_in_shard(slice, part)),
          part.range.numel() * from_.element_bytes(),
          is_copy);
    });
  }

  void states(const OwnedSlice& slice) {
    const bool is_copy = is_a_copy(from_, from_.state_home());
    from_.layout().for_each_slice(slice.range, [&](const OwnedSlice& part) {
      const int owner = is_copy ? holders_.of_copies : part.rank;
      for (int state = 0; state < from_.num_states(); ++state) {
        add(owner,
            from_.state_at(owner, state, part.range.begin, part.shard_offset),
            to_.state_at(
                rank_, state, part.range.begin, offset_in_shard(slice, part)),
            part.range.numel() * from_.state_element_bytes(),
            is_copy);
      }
    });
  }

  void finish() {
    comm::WindowReading(*from_.window(), std::move(reads_)).wait();
  }

 private:
  static int64_t offset_in_shard(
      const OwnedSlice& slice,
      const OwnedSlice& part) {
    return slice.shard_offset + part.range.begin - slice.range.begin;
  }

  void add(
      int owner,
      const std::byte* place,
      std::byte* to,
      int64_t bytes,
      bool is_copy) {
    const int holder =
        is_copy ? owner : holders_.of[static_cast<size_t>(owner)];
    reads_.push_back(
        {.rank = holder, .place = place, .to = to, .bytes = bytes});
  }

  const Partition& from_;
  const Partition& to_;
  const Holders& holders_;
  int rank_;
  std::vector<comm::WindowRead> reads_;
};

} // namespace

bool has_copies_of_nobody(const Partition& partition) {
  return partition.window()->reach.has_value() &&
      is_a_copy(partition, partition.parameter_home());
}

int64_t checksum_of_copies(const Partition& partition) {
  const auto checksum = [&](const std::byte* data, int64_t element_bytes) {
    return static_cast<int64_t>(base::checksum_of(
        {reinterpret_cast<const char*>(data),
         static_cast<size_t>(partition.layout().numel() * element_bytes)}));
  };
  const int rank = partition.rank();
  int64_t sum =
      checksum(partition.parameter_at(rank, 0, 0), partition.element_bytes());
  for (int state = 0; partition.trainable() && state < partition.num_states();
       ++state) {
    sum = 31 * sum +
        checksum(
              partition.state_at(rank, state, 0, 0),
              partition.state_element_bytes());
  }
  return sum;
}

void repartition(
    const Partition& from,
    const Partition& to,
    const Holders& holders,
    int rank) {
  ZERO_CHECK(
      from.layout().numel() == to.layout().numel() &&
      from.parameters().size() == to.parameters().size());
  Copier copier(from, to, holders, rank);
  const OwnedSlice all{.rank = rank, .range = {0, to.layout().numel()}};
  const auto& reach = to.window()->reach;
  const auto for_each_own = [&](Home home, auto visit) {
    if (home == Home::full) {
      visit(all);
      return;
    }
    for (int bucket = 0; bucket < to.layout().num_buckets(); ++bucket) {
      if (home == Home::once && reach) {
        // Every host has one: its ranks take turns.
        const auto& hosts = reach->hosts();
        const auto& here = hosts.ranks_of(reach->host());
        if (bucket % static_cast<int>(here.size()) == hosts.local_rank(rank)) {
          visit({.rank = rank, .range = to.layout().bucket(bucket)});
        }
        continue;
      }
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
  copier.finish();
}

} // namespace zero::shard

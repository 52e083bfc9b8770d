#include "comm/shm/segment.h"

#include <algorithm>
#include <new>

#include "base/alignment.h"
#include "base/error.h"
#include "comm/shm/assembly.h"

namespace zero::comm {

namespace {

constexpr uint64_t kSegmentMagic = 0x31'4752'4f55'5030ULL;
constexpr int64_t kPairBytes = 256 << 10;

constexpr int kDepth = 4;
constexpr int kDepthBetweenHosts = 16;
constexpr int64_t kMaxSlotsBytes = 64 << 20; // of all ranks, between hosts

// Of a segment that has a number other hosts have one, too.
int depth_for(int size, uint32_t number) {
  return number == 0
      ? kDepth
      : static_cast<int>(std::clamp<int64_t>(
            kMaxSlotsBytes / kSlotBytes / size, kDepth, kDepthBetweenHosts));
}

// A slot holds a part for each rank; parts begin on cache lines.
int64_t part_bytes_for(int size) {
  return kSlotBytes / size / 64 * 64;
}

// There are size * size pairs, so each one is small where there are many.
int64_t pair_bytes_for(int size) {
  return std::clamp<int64_t>(
      kPairBytes / size / 4096 * 4096, 4096, kPairBytes / 2);
}

} // namespace

struct Segment::Header {
  uint64_t magic;
  int32_t size;
  uint32_t number;
  int32_t num_guests;
  // The ranks' roster ids follow.
  int32_t* ids() {
    return reinterpret_cast<int32_t*>(this + 1);
  }
};

// Offsets of the parts, in bytes.
struct Segment::Layout {
  Layout(int size, uint32_t number, int num_guests)
      : n(static_cast<size_t>(size)),
        depth(static_cast<size_t>(depth_for(size, number))),
        part(static_cast<size_t>(part_bytes_for(size))),
        pair(static_cast<size_t>(pair_bytes_for(size))),
        area(Assembly::bytes_for(size, num_guests)) {}

  size_t n;
  size_t depth;
  size_t part;
  size_t pair;
  size_t area;
  size_t states = base::round_up<size_t>(
      sizeof(Header) + n * sizeof(int32_t),
      base::kCacheLine);
  size_t pairs = states + n * sizeof(RankState);
  size_t assembly = pairs + n * n * sizeof(PairState);
  size_t slots = base::round_up<size_t>(assembly + area, base::kPage);
  size_t results = slots + n * depth * kSlotBytes;
  size_t pair_slots =
      base::round_up<size_t>(results + n * depth * part, base::kPage);
  size_t total = pair_slots + n * n * kPairDepth * pair;
};

std::shared_ptr<base::SharedMapping> Segment::create(
    const std::vector<int>& ids,
    uint32_t number,
    int num_guests) {
  const int size = static_cast<int>(ids.size());
  auto mapping = base::SharedMapping::create(
      "zero-group", Layout(size, number, num_guests).total);
  // Fresh shared memory is zero: no counter has moved, nobody has arrived.
  auto* header =
      new (mapping->data()) Header{kSegmentMagic, size, number, num_guests};
  std::copy(ids.begin(), ids.end(), header->ids());
  return mapping;
}

Segment::Segment(std::shared_ptr<base::SharedMapping> mapping)
    : mapping_(std::move(mapping)) {
  std::byte* base = mapping_->data();
  const auto* header = reinterpret_cast<Header*>(base);
  if (mapping_->bytes() < base::kPage || header->magic != kSegmentMagic ||
      Layout(header->size, header->number, header->num_guests).total !=
          mapping_->bytes()) {
    throw CorruptionError(
        "the shared segment is not one of this version of libzero. Fix: run "
        "all ranks with one installation");
  }
  size_ = header->size;
  part_bytes_ = part_bytes_for(size_);
  pair_bytes_ = pair_bytes_for(size_);
  const Layout layout(size_, header->number, header->num_guests);
  depth_ = static_cast<int64_t>(layout.depth);
  states_ = reinterpret_cast<RankState*>(base + layout.states);
  pairs_ = reinterpret_cast<PairState*>(base + layout.pairs);
  assembly_ = base + layout.assembly;
  slots_ = base + layout.slots;
  results_ = base + layout.results;
  pair_slots_ = base + layout.pair_slots;
}

uint32_t Segment::number() const {
  return reinterpret_cast<const Header*>(mapping_->data())->number;
}

int Segment::num_guests() const {
  return reinterpret_cast<const Header*>(mapping_->data())->num_guests;
}

std::vector<int> Segment::ids() const {
  auto* ids = reinterpret_cast<Header*>(mapping_->data())->ids();
  return {ids, ids + size_};
}

} // namespace zero::comm

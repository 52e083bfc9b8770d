// Defines the shared segment of a group: what lies where, and who writes it.
//
// Note [Pieces]
// A collective moves its data in pieces that fit a slot. For each piece a rank
//   publishes  its contribution into its own slot,
//   joins      its host's contributions to parts that others own (reductions
//              over several hosts only),
//   combines   everybody's contributions to the part it owns (reductions only),
//   collects   what the others published or combined,
// and says so by raising its counter of that stage. Counters never go back and
// run on from one collective to the next; all ranks run the same collectives,
// so piece k is the same piece everywhere. A slot is one of depth() that take
// turns: piece k may be written when every rank has collected piece k -
// depth(). That one rule keeps every slot safe, and a rank may be up to depth()
// pieces ahead of the slowest. On one host few are best, since they stay in the
// cache; between hosts there have to be as many as are on the wire, and as wait
// there for the news that others have been collected.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/alignment.h"
#include "base/shared_mapping.h"
#include "comm/shm/doorbell.h"
#include "comm/signature.h"

namespace zero::comm {

// Larger pieces cost fewer handshakes; smaller ones stay in the cache between
// the rank that writes them and the one that reads them.
inline constexpr int64_t kSlotBytes = 256 << 10;

// How many collectives a rank may announce ahead of the slowest.
inline constexpr int kSignatures = 16;

// Segments of a message between two ranks that may be under way at once.
inline constexpr int kPairDepth = 2;

// Which operation a rank has reached, in one word, for messages.
struct Position {
  int64_t sequence = -1; // -1: none yet
  CommOp op = CommOp::barrier;
  bool inside = false;

  uint64_t pack() const {
    return static_cast<uint64_t>(sequence + 1) << 9 |
        static_cast<uint64_t>(op) << 1 | static_cast<uint64_t>(inside);
  }
  static Position unpack(uint64_t word) {
    return {
        static_cast<int64_t>(word >> 9) - 1,
        static_cast<CommOp>(word >> 1 & 0xff),
        (word & 1) != 0};
  }
};

// What a rank says of who is to go on: see comm/shm/agreement.h.
struct Statement {
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> number;
  std::array<std::atomic<uint64_t>, 2> members; // a bit for each rank
  // For a rank of its own host: the number of the new segment, and where it is.
  std::atomic<uint64_t> built;
  std::atomic<uint64_t> process;
  std::atomic<uint64_t> descriptor;
};

// What one rank says of itself. Only that rank writes it, but for the doorbell.
struct RankState {
  alignas(base::kCacheLine) std::atomic<uint64_t> published;
  alignas(base::kCacheLine) std::atomic<uint64_t> joined; // by hosts
  alignas(base::kCacheLine) std::atomic<uint64_t> combined;
  alignas(base::kCacheLine) std::atomic<uint64_t> collected;

  alignas(base::kCacheLine) Doorbell doorbell;
  std::atomic<uint64_t> dropped; // takes no part in this group any more

  // Collectives whose signature is there, and those it has compared.
  alignas(base::kCacheLine) std::atomic<uint64_t> announced;
  std::atomic<uint64_t> verified;
  std::atomic<uint64_t> position;
  alignas(base::kCacheLine) std::array<Signature, kSignatures> signatures;
};

// One direction between two ranks: a ring of kPairDepth segments.
struct PairState {
  alignas(base::kCacheLine) std::atomic<uint64_t> produced; // by the sender
  alignas(base::kCacheLine) std::atomic<uint64_t> consumed; // by the receiver
  std::atomic<uint64_t> refused; // the receiver awaits what `refusal` says
  Signature refusal;
  // Of the message that segment k begins; by the sender.
  alignas(base::kCacheLine) std::array<Signature, kPairDepth> headers;
  // Over several hosts; by the sender. To each rank: who else would have passed
  // it on may be gone.
  alignas(base::kCacheLine) Statement statement;
};

class Segment {
 public:
  // Makes a segment for the ranks with these roster ids. Over several hosts
  // each has one of the same number. `num_guests` may come where the next
  // membership is agreed on.
  static std::shared_ptr<base::SharedMapping> create(
      const std::vector<int>& ids,
      uint32_t number = 0,
      int num_guests = 0);

  // Throws: CorruptionError if it is not a segment of this version.
  explicit Segment(std::shared_ptr<base::SharedMapping> mapping);

  int size() const {
    return size_;
  }
  std::vector<int> ids() const;
  uint32_t number() const;
  int num_guests() const;
  const std::shared_ptr<base::SharedMapping>& memory() const {
    return mapping_;
  }

  RankState& state(int rank) const {
    return states_[rank];
  }
  // rank's contribution to piece k.
  std::byte* slot(int rank, uint64_t piece) const {
    return slots_ + turn(rank, piece, depth_) * kSlotBytes;
  }
  // The part of that contribution meant for one rank.
  std::byte* slot(int rank, uint64_t piece, int to) const {
    return slot(rank, piece) + to * part_bytes_;
  }
  int64_t part_bytes() const {
    return part_bytes_;
  }
  uint64_t depth() const {
    return static_cast<uint64_t>(depth_);
  }
  // What rank has combined of piece k.
  std::byte* result(int rank, uint64_t piece) const {
    return results_ + turn(rank, piece, depth_) * part_bytes_;
  }

  PairState& pair(int from, int to) const {
    return pairs_[from * size_ + to];
  }
  std::byte* pair_slot(int from, int to, uint64_t segment) const {
    return pair_slots_ +
        turn(from * size_ + to, segment, kPairDepth) * pair_bytes_;
  }
  int64_t pair_bytes() const {
    return pair_bytes_;
  }

  // Where the next membership is agreed on.
  std::byte* assembly() const {
    return assembly_;
  }

  // Others need not open it any more.
  void close_address() const {
    mapping_->close_address();
  }

 private:
  struct Header;
  struct Layout;

  // Which of all places it is, where each owner has `depth` that take turns.
  static int64_t turn(int owner, uint64_t number, int64_t depth) {
    return owner * depth + static_cast<int64_t>(number) % depth;
  }

  std::shared_ptr<base::SharedMapping> mapping_;
  int size_ = 0;
  int64_t depth_ = 0;
  int64_t part_bytes_ = 0;
  int64_t pair_bytes_ = 0;
  RankState* states_ = nullptr;
  PairState* pairs_ = nullptr;
  std::byte* assembly_ = nullptr;
  std::byte* slots_ = nullptr;
  std::byte* results_ = nullptr;
  std::byte* pair_slots_ = nullptr;
};

} // namespace zero::comm

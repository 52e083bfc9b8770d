// Defines Roster: the list of the job's ranks on this machine, in shared
// memory: which process each one is, whether it lives, and its heartbeat.
//
// It is made before the ranks start (by the launcher, by torchrun's rank 0, or
// by the process whose threads are the ranks) and lasts as long as the job. An
// id is a rank's number at the start; it is never used again for another. Who
// comes later, in place of a lost one, gets an id beyond those: see Note
// [Newcomers] in world_state.h.
//
//   Roster roster = Roster::create(4);
//   roster.join(id);  ...  if (roster.gone(other)) ...
//
// Thread-safe, and safe against the death of any process at any moment: every
// field is one atomic word.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/shared_mapping.h"

namespace zero::comm {

enum class MemberState : uint32_t {
  absent, // has not joined yet
  alive, // joined; its process runs, as far as anybody knows
  left, // said goodbye: its World is gone, its process may go on
  lost, // its process is gone
};

// Every pair of ranks has a channel, so memory grows with the square.
inline constexpr int kMaxRanks = 128;

class Roster {
 public:
  // `num_newcomers` is how many may come later.
  // Throws: ConfigError unless 1 <= num_ranks <= kMaxRanks; IoError.
  static Roster create(int num_ranks, int num_newcomers = 0);
  static Roster attach(std::shared_ptr<base::SharedMapping> mapping);

  int size() const; // ranks at the start
  int num_ids() const; // and those that came later
  base::SegmentAddress address() const {
    return mapping_->address();
  }
  const std::shared_ptr<base::SharedMapping>& memory() const {
    return mapping_;
  }

  // `verify`: whether this rank compares what the ranks call.
  // Throws: ConfigError when the id is out of range or already taken.
  void join(int id, bool verify = true);
  void leave(int id);
  void mark_lost(int id);

  MemberState state(int id) const;
  bool gone(int id) const;
  pid_t pid(int id) const;
  bool verifies(int id) const;

  void beat(int id);
  uint64_t heartbeat(int id) const;

  // Where all of the above is, for other hosts to be told of.
  const std::atomic<uint64_t>& state_word(int id) const;
  const std::atomic<uint64_t>& who_word(int id) const;
  const std::atomic<uint64_t>& heartbeat_word(int id) const;

  // Remembers that this rank failed because another one was lost, so that the
  // launcher can tell the first cause from what followed.
  void note_victim(int id);
  void forgive_victim(int id); // it has gone on without the other
  bool is_victim(int id) const;

  // Of two that are lost, what was lost first has the lower number; 0 is what
  // its own host told of, which knows before any other.
  uint32_t loss(int id) const;

  // Remembers that this rank is killed because it gave no sign of life, or, on
  // another host, counts as lost for that.
  void note_silent(int id);
  bool is_silent(int id) const;

  // Said by a launcher that ends all ranks when one is lost: until it has, the
  // others are not to go on.
  void end_with_the_first_loss();
  bool ends_with_the_first_loss() const;

  bool takes_newcomers() const;
  // The id of the next one, if there is any left. Called by who starts them.
  std::optional<int> add_newcomer();
  // Until it is in the group of all ranks.
  bool is_joining(int id) const;
  void has_joined(int id);
  // Whether anybody lives who is in it.
  bool is_anybody_there() const;

  // Where newcomers find the present group of all ranks; said by its rank 0.
  // The number is another one for each group, 0 before the first.
  struct Meeting {
    uint64_t number = 0;
    base::SegmentAddress segment;
  };
  void say_where_to_meet(base::SegmentAddress segment);
  Meeting where_to_meet() const;

  // Where the ranks form their first group; see assembly.h.
  std::byte* assembly() const;

 private:
  struct Member;
  struct Header;

  explicit Roster(std::shared_ptr<base::SharedMapping> mapping);
  Header& header() const;
  Member& member(int id) const;

  std::shared_ptr<base::SharedMapping> mapping_;
};

} // namespace zero::comm

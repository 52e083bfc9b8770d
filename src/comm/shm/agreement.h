// Defines Agreement: how ranks on several hosts agree on who goes on, whoever
// dies meanwhile. shrink() of a group over several hosts comes about this way;
// on one host it is Assembly that does it.
//
// Note [Agreement]
// Each rank says where it is in a Statement, one to each of the others. The
// lowest rank that lives coordinates:
//   1. it waits until every living rank says that it follows this coordinator,
//      and has thereby given up earlier ones;
//   2. it proposes who goes on: all that live;
//   3. each of them gets the new segment of its host, and accepts;
//   4. when all have accepted, it says that this is settled, and so does each
//      rank that hears of it.
// If one of the proposed is gone before 4, there is another attempt. If the
// coordinator is gone, the next one begins anew; but if a living rank says that
// something is settled, that is what it settles, too. So no two ranks go on
// with different groups: what was settled only for ranks that are gone since
// binds nobody.
//
// Who is out of reach may be alive and come to an agreement of its own. So
// those who go on have to be more than those out of reach, or as many, with the
// lowest of all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/shared_mapping.h"
#include "comm/net/reach.h"
#include "comm/shm/segment.h"

namespace zero::comm {

class Agreement {
 public:
  // How the caller takes part. Ranks are those of the old group.
  struct Participant {
    int rank = 0;
    const Segment& segment; // the old one
    const Reach& reach;
    uint32_t next_number = 0; // of what is mirrored, that this rank has not had
    double timeout_seconds = 0; // for living ranks that do not come
    std::function<bool(int)> gone;
    std::function<bool(int)> out_of_reach; // of those that are gone
    // Makes the new segment of a host. Called on one of its ranks.
    std::function<std::shared_ptr<base::SharedMapping>(
        const std::vector<int>& ranks,
        uint32_t number)>
        build;
  };
  struct Outcome {
    std::vector<int> members; // ascending
    uint32_t number = 0;
    std::shared_ptr<base::SharedMapping> segment;
  };

  explicit Agreement(Participant participant);

  // Throws: CommTimeout when a living rank does not come, CommError when too
  // many are out of reach or the others go on without this one, IoError when
  // the segment could not be made or mapped.
  Outcome run();

  // Whether another rank of that group has come here, as `rank` sees it.
  static bool has_come(const Segment& segment, int other, int rank);

 private:
  enum class Phase : uint64_t { none, waits, proposes, accepts, settled };
  struct Said {
    Phase phase = Phase::none;
    int coordinator = -1;
    uint64_t attempt = 0;
    uint32_t number = 0;
    std::vector<int> members = {};
  };

  int size() const {
    return participant_.segment.size();
  }
  int lowest_living() const;
  void say(const Said& said) const;
  Said said_by(int rank) const;
  Outcome lead();
  std::optional<Outcome> follow(int coordinator);
  std::optional<Said> settled_by_a_living_rank() const;
  Said propose(uint64_t attempt) const;
  void check_may_go_on(const std::vector<int>& members) const;
  bool all_accept(const Said& proposal, bool is_settled);
  bool prepare(const Said& proposal);
  Outcome settle(Said proposal);
  template <class Condition>
  void wait_until(Condition condition, const std::function<int()>& missing);

  Participant participant_;
  // Of proposals that this rank can accept, by number.
  std::map<uint32_t, std::shared_ptr<base::SharedMapping>> segments_;
};

} // namespace zero::comm

// Defines Assembly: how ranks that share an old segment agree on a new one,
// whoever dies meanwhile. The first group of a world and every shrink() come
// about this way.
//
// Note [Assembly]
// Everybody arrives, and waits until every rank has arrived or is gone. Then
// come rounds, until one succeeds. In a round
//   1. the lowest living rank claims it, lists the living ranks, makes the new
//      segment and says where it is;
//   2. every listed rank maps the segment and says so, or gives up because the
//      claimer is gone and the segment with it;
//   3. the round has succeeded when all listed ranks have mapped it, and has
//      failed when the claimer is gone before step 1 is complete, or a listed
//      rank gave up, or is gone before it said anything.
// Words only ever go forward, and a dead rank writes nothing more, so all ranks
// come to the same verdict: nobody goes on with a segment that another rank
// gave up. Every failed round has cost a rank, so n rounds are enough.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/shared_mapping.h"

namespace zero::comm {

class Assembly {
 public:
  // How the caller takes part. Ranks are numbered as in the old segment.
  struct Participant {
    int rank = 0;
    int size = 0;
    std::string purpose; // "init", "shrink": for messages
    double timeout_seconds = 0; // for living ranks that do not come
    std::function<bool(int)> gone;
    // Makes the new segment for these ranks. Called on one of them.
    std::function<std::shared_ptr<base::SharedMapping>(const std::vector<int>&)>
        build;
    // Called before it throws because of what happened to another rank.
    std::function<void()> failed_by_another = [] {};
  };

  struct Outcome {
    std::shared_ptr<base::SharedMapping> segment;
    std::vector<int> members; // ascending
  };

  static size_t bytes_for(int num_ranks);

  // The lowest rank that has come here, -1 if none has.
  static int first_arrived(std::byte* area, int num_ranks);

  // `area` has bytes_for(size) bytes of shared memory, zero at first, and
  // serves one assembly.
  Assembly(std::byte* area, Participant participant);

  // Throws: CommTimeout when a living rank does not come, IoError when the
  // segment could not be made or mapped by one of the ranks.
  Outcome run();

 private:
  struct Area;
  struct Round;

  Area& area() const;
  Round& round(int number) const;
  void wait_for_arrivals();
  void propose(Round& round);
  void wait_for_proposal(Round& round);
  bool join(Round& round, Outcome& outcome);
  void ring();
  template <class Condition>
  void wait_until(Condition condition, const std::function<int()>& missing);

  std::byte* area_;
  Participant participant_;
  // Of this rank's proposals, the newest last. Those of failed rounds stay
  // until all is over: a slower rank may be about to map one.
  std::vector<std::shared_ptr<base::SharedMapping>> own_segments_;
};

} // namespace zero::comm

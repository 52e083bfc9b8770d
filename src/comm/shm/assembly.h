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
//
// Note [Guests]
// Who is not one of the old ranks may come, too, to places beyond theirs.
// Nobody waits for guests. They are listed behind the ranks, but only if every
// rank that is listed has come to let guests in: one that comes because another
// was lost is somewhere else in its program than where a newcomer begins. A
// guest proposes nothing; one that is not listed goes to where these ranks
// meet next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
    int num_guests = 0; // places for them
    bool lets_in = false; // guests
  };

  struct Outcome {
    std::shared_ptr<base::SharedMapping> segment;
    std::vector<int> members; // ascending; guests from the number of ranks on
  };

  static size_t bytes_for(int num_ranks, int num_guests = 0);

  // The lowest rank that has come here, -1 if none has.
  static int first_arrived(std::byte* area, int num_ranks);

  // `area` has bytes_for(size) bytes of shared memory, zero at first, and
  // serves one assembly.
  Assembly(std::byte* area, Participant participant);

  // Throws: CommTimeout when a living rank does not come, IoError when the
  // segment could not be made or mapped by one of the ranks.
  Outcome run();

  // Of a guest, whose rank this is then: a place beyond those of the ranks, the
  // same for the same id. Nothing if all are taken.
  static std::optional<int> take_place(
      std::byte* area,
      int num_ranks,
      int num_guests,
      int id);
  // The id of who is there, -1 if nobody is.
  static int guest_at(std::byte* area, int num_ranks, int place);
  // For a guest: takes part as far as it can without waiting. Called again and
  // again; returns what has come about with it.
  std::optional<Outcome> look();

 private:
  struct Area;
  struct Round;

  Area& area() const;
  Round& round(int number) const;
  int num_places() const {
    return participant_.size + participant_.num_guests;
  }
  bool is_there(int place) const;
  bool map(Round& round, Outcome& outcome);
  bool has_failed(Round& round, const Outcome& outcome);
  static int missing_of(Round& round, const Outcome& outcome);
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
  // Of a guest: the round it looks at, and what it has mapped of it.
  int looks_at_ = 0;
  std::optional<Outcome> mapped_;
};

} // namespace zero::comm

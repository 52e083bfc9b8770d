// Defines Group: the ranks of one communicator, as one of them sees it: the
// segment they share, who they are, and the operations of this rank.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/process_owned.h"
#include "base/shared_mapping.h"
#include "comm/membership.h"
#include "comm/net/reach.h"
#include "comm/shm/collective.h"
#include "comm/shm/progress.h"
#include "comm/shm/segment.h"
#include "comm/traffic_counters.h"

namespace zero::comm {

class NcclGroup;
struct WindowState;

// Where a tensor is: which window of the group, in the order they were made,
// and how far into its rank's part.
struct WindowLocation {
  int64_t window = -1; // in none
  int64_t offset = 0; // bytes
};

class Group {
 public:
  // The group of all ranks of the roster. Blocks until they have come.
  // Throws: PeerLost when one is gone before, CommTimeout, IoError.
  static std::shared_ptr<Group> form(std::shared_ptr<Membership> membership);

  // The same over several hosts, where each has made its segment already.
  static std::shared_ptr<Group> form_over_hosts(
      std::shared_ptr<Membership> membership,
      std::shared_ptr<base::SharedMapping> segment);

  // The group whose segment this is; this rank is one of its members.
  Group(
      std::shared_ptr<Membership> membership,
      std::shared_ptr<base::SharedMapping> segment);
  ~Group(); // the others learn that this rank takes no part any more
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const {
    return rank_;
  }
  int size() const {
    return segment_.size();
  }
  const Segment& segment() const {
    return segment_;
  }
  const Reach& reach() const {
    return reach_;
  }
  const std::shared_ptr<Membership>& membership() const {
    return membership_;
  }
  // Throws: ConfigError in a child of the process that joined the world.
  Progress& progress();
  CollectiveContext context();
  uint64_t& produced(int to) {
    return produced_[static_cast<size_t>(to)];
  }
  uint64_t& consumed(int from) {
    return consumed_[static_cast<size_t>(from)];
  }

  // The first rank of this host.
  int leader_here() const {
    return reach_.hosts().ranks_of(reach_.host()).front();
  }
  // What a rank proposes as the number of memory that all hosts have, by
  // exchange(); 0 on one host.
  int64_t proposed_number() const;
  uint32_t take_number(const std::vector<int64_t>& proposed) const;

  std::shared_ptr<Group> split(int color, int key);
  // The same group when it is called again. With `lets_in`, guests that have
  // come are in it if every rank calls it so.
  std::shared_ptr<Group> shrink(bool lets_in = false);
  bool is_guest_waiting() const;

  // Blocks until every rank has come here. It is not counted as the user's.
  void barrier();

  // Collective: `values` of every rank, one rank after another. `purpose` is
  // what the user called, for messages.
  std::vector<int64_t> exchange(
      CommOp purpose,
      const std::vector<int64_t>& values);

  // Collective: every rank maps the segment that its `leader`, on the same
  // host, makes, then runs `prepare` on it. Throws: IoError on every rank when
  // it fails on one, PeerLost on every rank when the leader's end is why.
  std::shared_ptr<base::SharedMapping> share(
      CommOp purpose,
      int leader,
      const std::function<std::shared_ptr<base::SharedMapping>()>& make,
      const std::function<void(base::SharedMapping&)>& prepare);

  // Windows are made collectively, so their numbers agree on all ranks.
  void add_window(const std::shared_ptr<WindowState>& window);
  WindowLocation locate(const at::Tensor& tensor) const;
  // Of rank's tensor. The window is alive, as is who asks by a tensor in it.
  std::byte* address(int rank, const WindowLocation& location) const;

  // What collectives of CUDA tensors run on. Collective when it is called
  // first, for `purpose`. Throws: ConfigError if there is no module for NCCL,
  // or the device is another one than at first; CommError if NCCL does not
  // start.
  NcclGroup& nccl(CommOp purpose, c10::Device device);

  const std::shared_ptr<TrafficCounters>& traffic() const {
    return traffic_;
  }

  // Who takes no part any more, whoever is the cause first.
  std::vector<int> lost_ranks() const;
  // Why that is so. It is taken to be why this rank is about to fail.
  std::string epitaph(int rank) const;

 private:
  void check_process() const;
  static void check_verifies(Roster& roster, int id);
  bool gone(int rank) const;
  bool is_place_gone(int place) const; // of a rank, or of a guest
  // The lowest rank that has come to shrink(), -1 if none has.
  int first_to_give_up() const;
  std::vector<int> ids_of(const std::vector<int>& ranks) const;
  std::shared_ptr<base::SharedMapping> assemble_survivors(bool lets_in);
  std::shared_ptr<base::SharedMapping> agree_on_survivors();
  Progress::Options progress_options();

  base::ProcessMark process_;
  std::shared_ptr<Membership> membership_;
  Segment segment_;
  std::vector<int> ids_; // roster ids by rank
  int rank_;
  Reach reach_;
  uint64_t next_piece_ = 0;
  std::vector<uint64_t> produced_; // message segments, by peer
  std::vector<uint64_t> consumed_;
  std::shared_ptr<TrafficCounters> traffic_; // windows count too
  std::mutex shrink_mutex_;
  std::shared_ptr<Group> successor_; // what shrink() has made
  mutable std::mutex windows_mutex_;
  std::vector<std::weak_ptr<WindowState>> windows_;
  std::mutex nccl_mutex_;
  std::unique_ptr<NcclGroup> nccl_; // once it is needed
  Progress progress_; // last: its thread uses the fields above
};

} // namespace zero::comm

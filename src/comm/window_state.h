// Defines what is behind a Window: one shared mapping, a part for each rank.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/shared_mapping.h"
#include "comm/net/reach.h"
#include "comm/shm/group.h"
#include "comm/traffic_counters.h"

namespace zero::comm {

// It does not keep the group: tensors in it do not keep a communicator alive.
// Over several hosts each of them has all parts, of which those of ranks on
// other hosts are mirrors (comm/net/mirror.h): what nobody has stored there is
// not there, and is read.
struct WindowState {
  ~WindowState() {
    if (reach) {
      reach->remove();
    }
  }

  int rank = 0; // this one
  int size = 0;
  std::shared_ptr<TrafficCounters> traffic;
  std::shared_ptr<base::SharedMapping> mapping;
  std::vector<int64_t> bytes; // by rank
  std::vector<int64_t> offsets;
  std::optional<Reach> reach; // over several hosts
  std::weak_ptr<Group> group; // likewise
  bool has_copies = false; // of each host's parts, on its keeper

  std::byte* data(int rank) const {
    return mapping->data() + offsets[static_cast<size_t>(rank)];
  }

  bool contains(int rank, const std::byte* from, size_t size) const {
    const std::byte* begin = data(rank);
    const std::byte* end = begin + bytes[static_cast<size_t>(rank)];
    return from >= begin && from + size <= end && from <= end;
  }

  bool is_here(int other) const {
    return !reach || reach->is_here(other);
  }

  // Whether what that rank has can be read here.
  bool is_kept_here(int other) const {
    return is_here(other) ||
        (has_copies &&
         reach->hosts().keeper(reach->hosts().host_of(other)) == reach->host());
  }

  // A rank whose host has what another rank has or had, also when that one is
  // lost; none of `but`, -1 if there is none.
  int who_has(int rank, const std::vector<int>& but) const;

  // Over several hosts, for who waits for what another does there.
  // Throws: PeerLost.
  void throw_if_lost(int awaited) const;
  // It may be lost because of another, who is the one to name.
  [[noreturn]] void throw_lost(int lost) const;

  // To where the other hosts have it, as Reach does.
  void store(const void* place, int64_t size_in_bytes) const {
    if (reach) {
      reach->store(place, size_in_bytes);
    }
  }
  void store_word(const std::atomic<uint64_t>& word) const {
    if (reach) {
      reach->store_word(word);
    }
  }
};

// Bytes of a window, and where to copy them.
struct WindowRead {
  int rank = 0;
  const std::byte* place = nullptr; // in its part
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

// Copies bytes of one window. Those of other hosts are asked for at once, and
// are on their way until wait() returns, which copies those of this host. If a
// rank is lost that was asked, another is that has the same.
//
//   WindowReading reading(window, reads);  ...  reading.wait();
class WindowReading {
 public:
  WindowReading(const WindowState& window, std::vector<WindowRead> reads);
  ~WindowReading(); // nothing is written any more
  WindowReading(const WindowReading&) = delete;
  WindowReading& operator=(const WindowReading&) = delete;

  // Throws: PeerLost.
  void wait();

 private:
  struct Unanswered {
    WindowRead read; // a part of one
    int asked = 0;
  };

  void ask(const WindowRead& read, int rank);
  void wait_for_replies();

  const WindowState& window_;
  std::vector<WindowRead> reads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t num_open_ = 0; // asked for, and neither come nor given up
  std::vector<Unanswered> unanswered_;
};

// The beginning of rank 0's part, if it is a place for what comes and goes.
// Every host has it, and memory in it for what its own ranks need for good; the
// rest is reserved and discarded with the mapping, whose descriptor is kept.
struct SparsePart {
  struct Range {
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  int64_t bytes = 0;
  std::vector<Range> own; // of this rank
  int64_t bytes_here = 0; // of all ranks of this host
};

// Of another host's rank, memory for a copy of what it has there.
struct KeptPart {
  int rank = 0;
  int64_t begin = 0; // in its part
  int64_t bytes = 0;
};

struct WindowOptions {
  // Of rank 0's part, which every host has whole: memory for it, too.
  int64_t common_bytes = 0;
  SparsePart sparse = {};
  // Whether hosts keep copies of each other's parts; those that this rank
  // reserves memory for, and the bytes of all on this host.
  bool has_copies = false;
  std::vector<KeptPart> kept = {};
  int64_t kept_bytes_here = 0;
  // Called by another thread after a word came from another host.
  std::function<void(const WindowState&)> arrived = {};
};

// Collective. Throws: ConfigError, IoError.
std::shared_ptr<WindowState> make_window(
    const std::shared_ptr<Group>& group,
    int64_t bytes,
    const WindowOptions& options = {});

} // namespace zero::comm

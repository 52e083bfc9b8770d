// Defines Mirror: memory that every host has once, and how what a rank writes
// into it comes to the other hosts. The communication thread of a process is
// here, and it alone uses the link.
//
//   mirror.add(7, mapping, ranks, ring);   // on all of them, the same number
//   mirror.store(7, slot, bytes, rank);    // then, in this order, both are on
//   mirror.store_word(7, counter, rank);   // that rank's host
//
// Note [Mirrors]
// Ranks of one host talk by words in shared memory that one of them writes and
// all read. Between hosts it is the same: each host has the memory of all
// ranks, of which that of other hosts' ranks is a mirror, kept by what they
// send. A mapping has the same layout everywhere, so that whoever reads does
// not ask where a rank is; pages that no other host sends are never touched,
// and take no memory. On each host one rank receives what a rank of another
// host sends (Hosts::counterpart), so a byte goes over the wire once for each
// host.
//
// What is not mirrored is read: the owner's thread answers from its memory
// while the owner computes. So memory lasts until no rank needs it any more.
//
// What a rank stores arrives in the order in which it was stored. So a counter
// that is raised after its data tells the same on every host. Nothing is
// promised about the order of what different ranks store.
//
// Note [Overtaking]
// Of what is to be sent, only kWindowBytes are with the link at a time; the
// other side says what has come. Without that, many megabytes would wait in the
// buffers of the network, and behind them the word by which one rank tells
// another that it may send more: that one would have nothing to send
// meanwhile, until it is its turn, and a link that carries two directions at
// once would carry one after the other. So words that announce nothing may
// overtake what waits here, and with them heartbeats, and requests for what
// somebody needs now.
//
// Note [Helping]
// A thread that waits in a call would only watch, while the one here wakes up,
// moves, and wakes it: with a core for each process that costs more than the
// transfer. So who waits may do the same itself, and the thread here rests.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/shared_mapping.h"
#include "comm/mpi/module.h"
#include "comm/net/hosts.h"
#include "comm/net/link.h"
#include "comm/net/passage.h"

namespace zero::comm {

// Whether a word tells of what was stored before it.
enum class Order {
  kept,
  overtaking, // it does not, and is only ever stored so
};

class Mirror {
 public:
  // What the thread here tells and asks of losses.
  struct Losses {
    // A transfer with this rank failed.
    std::function<void(int rank)> lose;
    // It is lost, for whatever reason.
    std::function<bool(int rank)> is_lost;
    // Likewise, though it may live: what still comes from it is not heeded.
    std::function<bool(int rank)> is_out_of_reach;
  };

  // Ranks are those of the link.
  Mirror(std::unique_ptr<Link> link, const Hosts& hosts, Losses losses);
  ~Mirror(); // stops it
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Memory of all hosts, of which the others' `ranks` have one, too. `arrived`
  // is called by the thread here after something came from another host: it
  // rings whoever waits for it. What comes before is kept until then.
  void add(
      uint32_t number,
      std::shared_ptr<base::SharedMapping> mapping,
      const std::vector<int>& ranks,
      std::function<void()> arrived);
  // This rank needs it no more; the number is not used again. When it returns,
  // nobody is rung any more; others may still read it, until they have removed
  // it, too.
  void remove(uint32_t number);

  // As Link has it.
  void abandon() {
    is_abandoned_ = true;
  }

  // What is larger goes in parts.
  static constexpr size_t kPartBytes = kZeroMpiPartBytes;

  // Sends bytes of the mapping to the same place on another host. They may not
  // change before they have arrived there.
  void store(uint32_t number, const std::byte* place, size_t bytes, int host);
  // The same of a word that may change at once.
  void store_word(
      uint32_t number,
      const std::atomic<uint64_t>& word,
      int host,
      Order order = Order::kept);

  // Bytes of the mapping as another rank has them, at most kPartBytes, to
  // anywhere. `done` is called by the thread here, with false if that rank is
  // lost.
  void read(
      uint32_t number,
      size_t offset,
      std::byte* to,
      size_t bytes,
      int rank,
      std::function<void(bool)> done);

  // Begins it. It belongs to both until it is over. `ready` may be raised and
  // the passage withdrawn at any time; hurry() then looks at it soon.
  void open(std::shared_ptr<Passage> passage);
  void hurry();
  static constexpr size_t kPassagePartBytes = kZeroMpiPassagePartBytes;

  // Moves what can be moved, for a thread that waits for it: Note [Helping].
  // False if nothing did, or another thread is at it.
  bool help();

  // Called by all ranks when none of them stores or reads any more: returns
  // when all that they have stored is here, and what this one has is there.
  void finish();

  // Nothing goes out or comes in any more; what was stored has been sent.
  void stop();

 private:
  // A message is a batch of these, some followed by their bytes. Many bytes
  // come by themselves, with a tag of their own, straight to their place.
  // A read is answered by bytes with another tag; the others have none.
  enum class Kind : uint32_t {
    bytes,
    word,
    many_bytes,
    read, // overtakes
    received, // overtakes: of many bytes and answers, so many more have come
    removed,
    finished,
    // Both overtake, and are of a passage: so many of its bytes are awaited; no
    // more are, and those that were not sent shall be empty messages.
    asked,
    withdrawn,
  };
  struct Entry {
    Kind kind = Kind::bytes;
    uint32_t number = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // What this rank asked for.
  struct Reading {
    std::unique_ptr<Transfer> transfer; // of what comes, when it is asked for
    int from = 0;
    std::byte* to = nullptr;
    std::function<void(bool)> done;
  };
  // One that is to be sent, or has come and waits for its turn. One that is to
  // be sent without a reading, though it is a read, is an answer.
  struct Pending {
    Entry entry;
    std::optional<Reading> reading; // that it asks for
    std::vector<std::byte> copy; // unless they are many
    std::shared_ptr<base::SharedMapping> memory;
    std::unique_ptr<Transfer> transfer; // of many bytes that come
    std::vector<std::byte> dropped; // where they go if nobody wants them
  };
  struct Outgoing {
    std::unique_ptr<Transfer> transfer;
    int to = 0;
    std::vector<std::byte> batch; // empty: the bytes are in a mapping
    std::shared_ptr<void> memory;
  };
  // What is under way of a passage.
  struct Part {
    std::unique_ptr<Transfer> transfer;
    size_t bytes = 0;
  };
  struct Inward {
    std::shared_ptr<Passage> passage;
    int tag = 0;
    size_t asked = 0;
    std::deque<Part> parts;
    bool is_refused = false;
    bool is_told = false; // the other side, that it is withdrawn
    std::optional<base::TimePoint> cancelled;
  };
  // What the other side has asked for, perhaps before this one has opened it.
  struct Outward {
    std::shared_ptr<Passage> passage;
    int tag = 0;
    size_t asked = 0;
    size_t sent = 0;
    bool is_answered = false; // the receiver asks for no more
    std::deque<Part> parts;
  };
  using OutwardKey = std::tuple<int, uint32_t, uint64_t>; // rank, number, id
  // What is to be sent to one rank.
  struct Lane {
    std::deque<Pending> overtaking;
    std::deque<Pending> answers; // others wait for them
    std::deque<Pending> in_order;
    size_t under_way = 0; // of many bytes and answers, that have not come yet
    size_t received = 0; // from that rank, which it has not been told of

    bool empty() const {
      return overtaking.empty() && answers.empty() && in_order.empty();
    }
  };
  // Batches that one rank sends with one tag.
  struct Batches {
    std::vector<std::byte> buffer; // of the next one
    std::unique_ptr<Transfer> next;
    std::deque<Pending> entries;
  };
  // What one rank of another host sends here.
  struct Source {
    int rank = 0;
    Batches in_order;
    Batches overtaking;
    bool lost = false;
    bool finished = false; // nothing comes any more
  };
  struct Mapping {
    std::shared_ptr<base::SharedMapping> memory;
    std::function<void()> arrived;
    std::set<int> ranks; // of other hosts, that still need it
    std::set<int> all_ranks; // of these, also those that do not any more
    bool is_removed = false; // by this rank
  };

  static constexpr size_t kBatchBytes = size_t{16} << 10;
  // To one rank. Enough for what a fast network has under way while the other
  // side's thread may sleep, and a few milliseconds of 1 Gbit/s.
  static constexpr size_t kWindowBytes = 4 * kPartBytes;
  // Of a passage that comes: MPI has the places of so many parts.
  static constexpr size_t kPartsAhead = 8;

  void queue(Pending pending, int to, Order order);
  Lane& lane(int rank) {
    return lanes_[static_cast<size_t>(rank)];
  }
  static void append(
      std::vector<std::byte>& to,
      const void* from,
      size_t bytes);

  // Of the thread here, or one that helps; each says whether it has moved
  // anything.
  void run();
  bool step();
  bool send_queued();
  std::vector<Pending> take_what_may_go(Lane& lane) const;
  void send_in_batches(std::vector<Pending> pending, int to, int tag);
  void send_batch(std::vector<std::byte> batch, int to, int tag);
  void send_many_bytes(Pending pending, int to, int tag);
  bool finish_sends();
  bool finish_reads();
  void drop_lane(int rank);
  void forget(uint32_t number, int rank);
  bool receive(Source& source);
  Transfer::State take_batch(Batches& batches, int rank, int tag);
  static bool read_batch(Batches& batches);
  void begin_receiving(Batches& batches, int rank, int tag);
  bool is_valid(const Entry& entry, const Mapping& known) const;
  void set_word(const Pending& pending, const Mapping& known) const;
  bool apply_overtaking(Source& source);
  bool apply_in_order(Source& source);
  void begin_receiving_many_bytes(Source& source);
  void lose(Source& source);
  bool is_lost(int rank) const;
  bool take_opened();
  bool move_passages();
  bool move_in(Inward& inward);
  bool take_parts(Inward& inward);
  bool ask_for_parts(Inward& inward);
  void give_up(Inward& inward);
  bool move_out(const OutwardKey& key, Outward& outward);
  bool send_parts(Outward& outward);
  void heed(const Entry& entry, int rank);
  void refuse(int rank, Outward& outward);
  void never_call_again();
  void close_passages();
  void tell_of(const Inward& inward, Kind kind, size_t bytes);
  void rest(bool moved);
  bool is_helped() const;

  std::unique_ptr<Link> link_;
  Losses losses_;
  std::atomic<bool> is_abandoned_ = false;

  std::mutex mutex_; // of what follows
  std::condition_variable wanted_; // for the thread here
  std::condition_variable finished_; // a source is
  std::map<uint32_t, Mapping> mappings_;
  std::vector<Lane> lanes_; // by rank
  std::vector<std::shared_ptr<Passage>> opened_; // not known to who drives yet
  bool has_news_ = false; // for the thread here: something may be sent
  bool stop_ = false;
  bool is_stopped_ = false;

  std::atomic<base::Clock::rep> helped_ = 0; // when that was last

  std::mutex driving_; // before the other one; of what follows
  bool is_closed_ = true; // the link is not to be used, or not yet
  std::vector<Source> sources_;
  std::deque<Outgoing> outgoing_;
  std::deque<Reading> readings_;
  std::deque<Inward> inward_;
  std::map<OutwardKey, Outward> outward_;
  int next_tag_ = 0;
  int quiet_looks_ = 0; // this and the next are the thread's own
  base::TimePoint quiet_since_ = base::Clock::now();
  std::thread thread_;
};

} // namespace zero::comm

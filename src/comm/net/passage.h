// Defines Passage: bytes that go straight from the memory of one rank into that
// of another one on another host, wherever both are.
//
//   auto in = std::make_shared<Passage>(); // on one rank
//   in->data = ...; in->ready = in->bytes; mirror.open(in);
//   auto out = ...; out->way = Passage::Way::out; // on the other, likewise
//   while (!in->is_over) { ... } // then in->moved == in->bytes, or it failed
//
// Note [Passages]
// Who receives says so first, and with it that MPI has the place where the
// bytes go; the other one sends when it has come so far, too. So nothing large
// ever comes unasked, whatever else the two are doing with each other. It goes
// in parts, within what may be under way between two ranks at a time (Note
// [Overtaking]), each with the tag that the receiver chose for this passage.
//
// A user's memory is the user's again when the operation has failed, so MPI
// must have let go of it before. Who receives and gives up tells the other one,
// whose thread then answers what was asked for by empty messages: MPI has
// written what it will ever write when these have come, and no call of the
// other's program is needed for it. From a rank that is lost nothing comes:
// what it was to send is cancelled. If MPI is already in the middle of it and
// does not end it, it is never called again, since that is when it writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace zero::comm {

struct Passage {
  enum class Way { in, out };

  Way way = Way::in;
  uint32_t number = 0; // of the memory whose owners are told of what moves
  uint64_t id = 0; // the same on both sides, and once for a number
  int rank = 0; // the other one
  std::byte* data = nullptr;
  size_t bytes = 0; // the same on both sides
  // If it is not 0 there is so much memory only, used over and over: whole
  // parts of it.
  size_t ring = 0;
  // What comes takes the place of what goes, and waits for it.
  std::shared_ptr<const Passage> after;
  std::shared_ptr<void> keep; // for as long as MPI may look at the memory

  // By who opened it: the bytes before this may go, or come.
  std::atomic<size_t> ready = 0;
  std::atomic<bool> is_withdrawn = false;
  // By the mirror: those before this have.
  std::atomic<size_t> moved = 0;
  std::atomic<bool> is_over = false; // MPI knows the memory no more

  bool is_done() const {
    return is_over && moved == bytes;
  }
};

} // namespace zero::comm

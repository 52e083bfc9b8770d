// Defines Link: how the processes of several hosts send bytes to each other.
// MPI is one (comm/net/mpi_link.h); tests have one of their own.
//
// One thread at a time uses it; the Mirror's does.
#pragma once

#include <cstddef>
#include <memory>

namespace zero::comm {

// Bytes on their way. Dropping it unfinished gives it up.
class Transfer {
 public:
  enum class State {
    under_way, // the memory belongs to it
    done,
    failed, // the other rank is lost, or out of reach
  };

  virtual ~Transfer() = default;

  // Where it is since the link was last advanced.
  virtual State state() = 0;

  // Of one that is received, when it is done.
  virtual size_t bytes() const = 0;

  // Of one that is received: it fails soon, unless what it waits for has begun
  // to come.
  virtual void cancel() = 0;
};

class Link {
 public:
  virtual ~Link() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Between two ranks, transfers of one tag arrive in the order in which they
  // were sent, into the memory of those that were received in that order.
  virtual std::unique_ptr<Transfer> send(
      int to,
      int tag,
      const void* data,
      size_t bytes) = 0;
  // At most `bytes`.
  virtual std::unique_ptr<Transfer> receive(
      int from,
      int tag,
      void* data,
      size_t bytes) = 0;

  // Moves all transfers on, without waiting.
  virtual void advance() = 0;

  // A rank is lost: the end of the link does not wait for all of them.
  virtual void abandon() = 0;

  // Whether the others can go on talking when a rank is lost.
  virtual bool survives_losses() const = 0;
};

} // namespace zero::comm

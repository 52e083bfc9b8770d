// Defines the error tree of libzero: everything the library throws derives from
// zero::Error, and the type says what can be done about it.
//
//   Error
//   ├── ConfigError       the request is wrong: change it and start again
//   ├── CommError         ranks could not talk, or disagree on what to do
//   │   ├── PeerLost      a rank is gone: Communicator::shrink() and go on
//   │   └── CommTimeout   a rank is alive but did not arrive in time
//   ├── NonfiniteError    a loss or a gradient is no finite number
//   ├── IoError           the system refused a file, memory or a process
//   └── CorruptionError   data was read that cannot be right
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace zero {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ConfigError : public Error {
 public:
  using Error::Error;
};

class CommError : public Error {
 public:
  using Error::Error;
};

// Where an operation stood when it failed. `rank` is the rank that caused the
// failure, numbered in the communicator the operation was called on.
struct FailedOperation {
  int rank = -1;
  std::string operation; // "all_reduce"
  // Its number among the collectives, from 0. split() and window() consist of
  // several.
  int64_t sequence = -1;
};

// A rank's process is gone. Every later operation of the communicator throws
// it too, until the survivors call shrink().
class PeerLost : public CommError {
 public:
  PeerLost(const std::string& message, FailedOperation failed)
      : CommError(message), failed_(std::move(failed)) {}
  int rank() const {
    return failed_.rank;
  }
  const std::string& operation() const {
    return failed_.operation;
  }
  int64_t sequence() const {
    return failed_.sequence;
  }

 private:
  FailedOperation failed_;
};

// A rank is alive, but did not reach the operation within the progress timeout.
class CommTimeout : public CommError {
 public:
  CommTimeout(const std::string& message, FailedOperation failed)
      : CommError(message), failed_(std::move(failed)) {}
  int rank() const {
    return failed_.rank;
  }
  const std::string& operation() const {
    return failed_.operation;
  }
  int64_t sequence() const {
    return failed_.sequence;
  }

 private:
  FailedOperation failed_;
};

// Thrown by Engine::step() where the configuration asks for it, on every rank;
// parameters are as they were before the step.
class NonfiniteError : public Error {
 public:
  using Error::Error;
};

class IoError : public Error {
 public:
  using Error::Error;
};

class CorruptionError : public Error {
 public:
  using Error::Error;
};

} // namespace zero

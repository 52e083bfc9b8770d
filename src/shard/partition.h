// Defines Partition: parameters of one type, and where they, their gradients
// and their optimizer state lie, on this rank and on the others. The engine
// makes one for each type, and one for what is frozen.
//
// Note [Homes]
// What has to outlive a rank, or be read by another, lies in a window: shared
// memory with a part for each rank. By stage, for N ranks:
//
//   stage  parameters                      gradients         optimizer state
//   0      all, on each rank               all, each rank    all, each rank
//   1      all, each rank | once           all, each rank    1/N
//   2      all, each rank | once           1/N               1/N
//   3      1/N            | once           1/N               1/N
//
// where "once" is with shared memory: one copy, in which every rank reads all
// and writes its own slices. Over several hosts each of them has one copy; but
// at stage 3 that copy is sparse: it has a place for everything, and in it what
// the host's ranks own. The rest is read from the other hosts into its place
// when a rank of this host needs it, and discarded again (src/gather/).
//
// Note [Copies]
// With redundancy another host, the keeper, has a copy of what a host alone
// has: of its ranks' slices the optimizer state, the means of gradients, and at
// stage 3 the parameters. It lies where the owner has it, in the mirror that
// every host has of the owner's part, so that whoever reads a slice finds it
// there, too; and one rank of the keeper, the owner's counterpart, updates it
// with the same means by the same arithmetic. So nothing but the means goes
// over the wire for it; and not the new parameters, which at stages 1 and 2 go
// to every other host.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/window_state.h"
#include "shard/layout.h"

namespace zero::shard {

// A parameter of the module, known by one name or, if tied, by several.
struct Parameter {
  std::vector<std::string> names; // the first one is what messages say
  at::Tensor tensor;
  c10::Storage storage = {}; // the tensor's, until somebody gives it another

  const std::string& name() const {
    return names.front();
  }
};

enum class Home {
  none,
  full, // all of it, on each rank
  once, // all of it, in the part of rank 0
  shard, // this rank's slices
  sparse, // as once, but what ranks of other hosts own comes and goes
};

struct PartitionOptions {
  int stage = 0;
  bool shared_memory = true;
  bool trainable = true;
  bool redundant = false; // over several hosts, from stage 1 on
  int num_states = 0;
  int64_t bucket_numel = 1;
};

class Partition {
 public:
  // Collective. The tensors own their storage and have one type.
  // Throws: IoError on every rank if one has no memory.
  Partition(
      std::vector<Parameter> parameters,
      const std::shared_ptr<comm::Group>& group,
      const PartitionOptions& options);

  const std::vector<Parameter>& parameters() const {
    return parameters_;
  }
  const Parameter& parameter(int number) const {
    return parameters_[static_cast<size_t>(number)];
  }
  // -1 if it is none of these.
  int number_of(const at::Tensor& tensor) const;
  const Layout& layout() const {
    return layout_;
  }
  bool trainable() const {
    return options_.trainable;
  }
  int num_states() const {
    return options_.num_states;
  }
  int rank() const {
    return rank_;
  }

  at::ScalarType dtype() const {
    return dtype_;
  }
  // Of gradients and optimizer state: float for half precision.
  at::ScalarType state_dtype() const {
    return state_dtype_;
  }

  int64_t element_bytes() const {
    return element_bytes_;
  }
  int64_t state_element_bytes() const {
    return state_element_bytes_;
  }

  Home parameter_home() const {
    return parameter_home_;
  }
  // Whether there is one place for each of them, for all ranks of a host.
  bool parameters_are_shared() const {
    return parameter_home_ == Home::once || parameter_home_ == Home::sparse;
  }
  bool parameters_can_be_absent() const {
    return parameter_home_ == Home::shard || parameter_home_ == Home::sparse;
  }
  Home gradient_home() const {
    return gradient_home_;
  }
  Home state_home() const {
    return state_home_;
  }

  // Where an element lies on a rank, given its place in the flat space and in
  // that rank's shard. Requires: the rank has it.
  std::byte* parameter_at(int rank, int64_t flat, int64_t in_shard) const;
  std::byte* gradient_at(int rank, int64_t flat, int64_t in_shard) const;
  std::byte* state_at(int rank, int state, int64_t flat, int64_t in_shard)
      const;

  // A whole parameter, in the order of memory, from where it lies to somewhere.
  struct Reading {
    std::unique_ptr<comm::WindowReading> bytes;
    int64_t received = 0; // of them, from other ranks
    int64_t from_other_hosts = 0; // of these
  };
  [[nodiscard]] Reading read(int number, std::byte* to) const;

  // Of a parameter whose home is sparse: what ranks of other hosts own.
  int64_t missing_bytes(int number) const;
  // Memory for it, in its place. Throws: IoError.
  void reserve_missing(int number) const;
  // Brings it there.
  [[nodiscard]] Reading read_missing(int number) const;
  // Gives its memory back, but for pages that it shares with others.
  void discard_missing(int number) const;

  // The other way, to where it belongs: to this rank's copy, or to every
  // owner's shard. Over several hosts every rank writes what it owns, and the
  // first rank of a host the copy there.
  void write(int number, const std::byte* from) const;

  // The parameter's place among this rank's full gradients, in its own shape.
  at::Tensor gradient_view(int number) const;

  // The parts of the flat space that a rank updates: its slices, or all of it
  // where every rank does so for itself.
  std::vector<OwnedSlice> updated_slices(int rank) const;

  // Whether there are copies on other hosts; and of which ranks' slices `rank`
  // keeps one.
  bool has_copies() const {
    return window_->has_copies;
  }
  std::vector<int> kept_by(int rank) const;
  // Stores this rank's slices to the keeper: all of it, or the means only.
  void send_copies() const;
  void send_means() const;
  // Of the copies that this rank keeps: all, and the means of them.
  int64_t copy_bytes() const;
  int64_t copied_mean_bytes() const;

  // This rank's part, in bytes.
  int64_t parameter_bytes() const; // its share, where there is one copy
  int64_t gradient_bytes() const;
  int64_t state_bytes() const;

  // Keeps all of it mapped.
  const std::shared_ptr<comm::WindowState>& window() const {
    return window_;
  }

 private:
  struct Offsets {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t states = 0;
    int64_t total = 0;
  };
  // Bytes of the window.
  struct Bytes {
    std::byte* begin = nullptr;
    int64_t count = 0;
  };
  int64_t numel_at(Home home, int rank) const;
  std::vector<comm::KeptPart> kept_parts(int rank) const;
  bool is_kept_by_this_rank(int rank) const;
  void send_to_keeper(const std::byte* place, int64_t bytes) const;
  comm::SparsePart sparse_part(const comm::Group& group) const;
  std::vector<comm::WindowRead> missing(int number) const;
  // Where that lies; neighbours are one.
  std::vector<Bytes> missing_places(int number) const;
  Offsets offsets_of(int rank) const;
  std::byte* at(
      Home home,
      int rank,
      int64_t area,
      int64_t element_bytes,
      int64_t flat,
      int64_t in_shard) const;

  std::vector<Parameter> parameters_;
  PartitionOptions options_;
  int rank_;
  at::ScalarType dtype_;
  at::ScalarType state_dtype_;
  int64_t element_bytes_;
  int64_t state_element_bytes_;
  Layout layout_;
  Home parameter_home_ = Home::none;
  Home gradient_home_ = Home::none;
  Home state_home_ = Home::none;
  std::vector<Offsets> offsets_; // by rank
  bool has_copies_ = false;
  comm::Hosts hosts_;
  std::shared_ptr<comm::WindowState> window_;
};

} // namespace zero::shard

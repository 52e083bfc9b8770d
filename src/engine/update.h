// Defines Update: turns the means of gradients into new parameters, for the
// slices that a rank owns. Used by the engine's step, on its own slices; and on
// those of a rank that died on the way, from shared memory alone.
//
//   update.run(own_rank, decision);
#pragma once

#include <zero/optimizer.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/journal.h"
#include "engine/parameter_groups.h"
#include "reduce/reducer.h"
#include "shard/partition.h"

namespace zero::engine {

// What all ranks have agreed on for this update.
struct Decision {
  double gradient_factor = 1; // below 1 if the norm is clipped
  int64_t step = 0; // updates before this one
};

class Update {
 public:
  // Collective. All of it outlives this. It is journaled where others could
  // have to complete it: if each rank updates its own slices only, and a loss
  // does not end the job. The copies cost a few hundredths of a small step.
  Update(
      const reduce::Reducer& reducer,
      std::shared_ptr<Optimizer> optimizer,
      const ParameterGroups& groups,
      bool journaled,
      const std::shared_ptr<comm::Group>& group);

  // The reducer's next partition.
  void add(const shard::Partition* partition);

  // The part of `rank`, from where its journal says on: its own slices, and the
  // copies that it keeps.
  void run(int rank, const Decision& decision);

  // The update is complete everywhere: parameters that took part count it.
  void count();
  // Of the first partitions, the same that `before` had.
  void take_counts(const Update& before);

  // Of a parameter of a partition that was added.
  int64_t num_updates(const shard::Partition* partition, int number) const;
  void set_num_updates(
      const shard::Partition* partition,
      int number,
      int64_t count);

  Journal& journal() {
    return journal_;
  }

 private:
  // Elements of one parameter in a slice.
  struct Part {
    int owner = 0; // the rank whose slice it is
    int partition = 0;
    int parameter = 0;
    shard::Range range;
    int64_t shard_offset = 0;
  };
  // Parts one after another that are updated alike.
  struct Run {
    Part first;
    int64_t numel = 0;
    int group = 0;
    int64_t step = 0;
  };

  std::vector<Run> runs_of(int rank) const;
  std::vector<Part> parts_of(int rank) const;
  void add_parts_of(int owner, int partition, std::vector<Part>& parts) const;
  void update_chunk(
      const Run& run,
      int64_t begin,
      int64_t numel,
      const Decision& decision);
  std::vector<Journal::Piece> pieces_of(
      const Run& run,
      int64_t begin,
      int64_t numel) const;
  size_t index_of(const shard::Partition* partition) const;

  std::vector<const shard::Partition*> partitions_;
  const reduce::Reducer& reducer_;
  std::shared_ptr<Optimizer> optimizer_;
  const ParameterGroups& groups_;
  bool journaled_;
  int64_t chunk_numel_;
  Journal journal_;
  std::vector<std::vector<int64_t>> num_updates_; // by partition, parameter
  at::Tensor scaled_; // a chunk of gradients, clipped
};

} // namespace zero::engine

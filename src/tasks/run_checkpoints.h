// Defines RunCheckpoints: what a run goes on from, when it saves, and what is
// being written. Every rank has one; what they have to agree on they tell each
// other with each step.
//
//   RunCheckpoints checkpoints(world, config.train, options);
//   const auto loaded = checkpoints.resume(engine, sampler_state);
//   ...
//   if (checkpoints.is_due(engine.global_step())) {
//     checkpoints.begin(engine, folder, {.sampler = sampler_state});
//   }
//   ...
//   const auto path = checkpoints.finish();
#pragma once

#include <zero/engine.h>
#include <zero/sampler.h>
#include <zero/world.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "tasks/run_record.h"
#include "tasks/save_request.h"
#include "tasks/train_config.h"

namespace zero::tasks {

class RunCheckpoints {
 public:
  RunCheckpoints(
      const World& world,
      const TrainSection& section,
      const TrainOptions& options);

  // Collective. Loads the newest one, if the run is to go on and there is one.
  // `own` is what this run trains on. Throws: ConfigError if that one was of
  // something else; whatever Engine::load() throws.
  std::optional<LoadedCheckpoint> resume(
      Engine& engine,
      const SamplerState& own);

  // Minutes between checkpoints are counted from here.
  void start_clock();

  // What a rank tells the others: whether it wants one, which a signal does
  // once, and whether that under way is written.
  bool is_asked_for();
  bool is_written() const;
  // And what they have heard: any rank wants one.
  void ask();

  bool is_due(int64_t step) const;
  bool is_saved(int64_t step) const; // or about to be

  // Collective. Writes it while training goes on. Requires: none is under way.
  void begin(
      Engine& engine,
      const std::string& folder,
      const SaveOptions& options);

  // Collective, so that all ranks fail if it has. Returns where the one under
  // way is, or nothing if there is none. Throws: IoError, on other ranks than 0
  // FailedElsewhere.
  std::optional<std::string> finish();

  // When a rank was lost: the one under way may be there or not, and is wanted
  // again. Ranks then agree on whether one is wanted and which one is there.
  void give_up();
  bool is_asked() const {
    return is_asked_;
  }
  int64_t saved_step() const {
    return saved_step_;
  }
  void agree(bool is_asked, int64_t saved_step);

 private:
  bool is_time() const;

  World world_;
  TrainSection section_;
  TrainOptions options_;
  SaveRequest request_;
  bool is_asked_ = false; // by any rank
  std::optional<SaveHandle> saving_;
  base::TimePoint saved_at_;
  int64_t saved_step_ = -1; // of the newest checkpoint
};

} // namespace zero::tasks

#include "tasks/run_checkpoints.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "tasks/together.h"

namespace zero::tasks {

RunCheckpoints::RunCheckpoints(
    const World& world,
    const TrainSection& section,
    const TrainOptions& options)
    : world_(world), section_(section), options_(options) {}

std::optional<LoadedCheckpoint> RunCheckpoints::resume(
    Engine& engine,
    const SamplerState& own) {
  const std::string folder = options_.out + "/checkpoints";
  bool is_there = false;
  together(world_, [&] {
    if (options_.resume && world_.rank() == 0) {
      checkpoint::remove_leftovers(folder);
      is_there = !checkpoint::find_checkpoints(folder).empty();
    }
  });
  if (exchange_rows(world_, {is_there ? 1.0 : 0.0}).front().front() == 0) {
    return std::nullopt;
  }
  auto loaded = engine.load(folder);
  if (loaded.sampler &&
      (loaded.sampler->num_samples != own.num_samples ||
       loaded.sampler->seed != own.seed)) {
    throw ConfigError(c10::str(
        "the checkpoint '",
        loaded.path,
        "' is of a run on ",
        loaded.sampler->num_samples,
        " samples with seed ",
        loaded.sampler->seed,
        ", this one has ",
        own.num_samples,
        " with seed ",
        section_.seed,
        ". Fix: resume with the data and the seed it had, or begin a run "
        "of its own with model.load"));
  }
  saved_step_ = loaded.step;
  return loaded;
}

void RunCheckpoints::start_clock() {
  saved_at_ = base::Clock::now();
}

// By the clock of rank 0.
bool RunCheckpoints::is_time() const {
  return world_.rank() == 0 && section_.save_minutes > 0 &&
      base::seconds_since(saved_at_) >= 60 * section_.save_minutes;
}

bool RunCheckpoints::is_asked_for() {
  return request_.take() || is_time();
}

bool RunCheckpoints::is_written() const {
  return saving_ && saving_->done();
}

void RunCheckpoints::ask() {
  is_asked_ = true;
}

bool RunCheckpoints::is_due(int64_t step) const {
  const int64_t every = section_.save_every;
  return is_asked_ || (every > 0 && step % every == 0);
}

bool RunCheckpoints::is_saved(int64_t step) const {
  return saved_step_ == step;
}

void RunCheckpoints::begin(
    Engine& engine,
    const std::string& folder,
    const SaveOptions& options) {
  ZERO_CHECK(!saving_, "one is under way");
  is_asked_ = false;
  saved_step_ = engine.global_step();
  saved_at_ = base::Clock::now();
  saving_ = engine.save_async(folder, options);
}

std::optional<std::string> RunCheckpoints::finish() {
  if (!saving_) {
    return std::nullopt;
  }
  try {
    return std::exchange(saving_, std::nullopt)->wait();
  } catch (const IoError& error) {
    if (world_.rank() != 0) { // which tells of it
      throw FailedElsewhere(error.what());
    }
    throw;
  } catch (const CommError&) {
    saved_step_ = -1;
    is_asked_ = true;
    throw;
  }
}

void RunCheckpoints::give_up() {
  if (!saving_) {
    return;
  }
  try {
    finish();
  } catch (const Error&) { // the saver has told of it
  }
}

void RunCheckpoints::agree(bool is_asked, int64_t saved_step) {
  is_asked_ = is_asked;
  saved_step_ = saved_step;
}

} // namespace zero::tasks

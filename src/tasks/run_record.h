// Defines RunRecord: all that a run writes down, in its folder and for the
// person who looks on. Rank 0 has one.
//
//   RunRecord record(config, options);
//   record.add(update);
#pragma once

#include <zero/engine.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "report/event_file.h"
#include "report/metrics_file.h"
#include "report/progress.h"
#include "tasks/output_folder.h"
#include "tasks/task.h"
#include "tasks/train_config.h"

namespace zero::tasks {

struct TrainOptions {
  std::string config_path; // gives the run its name
  std::string out; // empty: the next free folder of runs/
  bool overwrite = false;
  bool resume = false;
  bool trace = false;
  int terminal_fd = -1;
};

// What a person wants to know before the first step.
struct RunFacts {
  std::string model;
  std::string data;
  std::vector<std::string> notes;
  int64_t num_parameters = 0;
  int num_ranks = 1;
  int num_threads = 1;
  int stage = 0;
  bool shared_memory = false;
  BatchSizes sizes;
  std::string sample_name;
  int64_t num_steps = 0;
  double num_epochs = 0;
  int64_t report_every = 1;
  MemoryAccount memory; // of each rank
};

// And after the last one.
struct RunEnd {
  std::string how;
  int64_t step = 0;
  Results last; // of an evaluation; empty: there was none
  Results best;
  int64_t best_step = 0;
};

// What an update was like.
struct UpdateRecord {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  double seconds = 0;
  double samples_per_second = 0;
  double tokens_per_second = 0; // 0: there are none
  MemoryAccount memory;
  EngineTraffic traffic;
  // By rank.
  std::vector<double> waiting; // seconds
  std::vector<double> communication; // seconds
  std::vector<int64_t> resident; // bytes
};

struct EvaluationRecord {
  int64_t step = 0;
  Results results;
  double seconds = 0;
  int64_t samples = 0;
  std::string text;
  bool is_best = false;
};

// Throws: as OutputFolder does.
OutputFolder open_output(const TrainOptions& options);

class RunRecord {
 public:
  // What was in the folder is removed; with a step that the run goes on from,
  // only what was written of later ones. Throws: IoError.
  RunRecord(
      const TrainConfig& config,
      const TrainOptions& options,
      OutputFolder folder,
      std::optional<int64_t> resumed_at);

  // Says and writes down what begins.
  void begin(const RunFacts& facts);

  void say(const std::string& line);
  // Says it, and marks the step in the report.
  void note(int64_t step, const std::string& what);
  void add(const UpdateRecord& update);
  void add(const EvaluationRecord& evaluation);

  // Says and writes down how it ended, and makes the page that shows the run.
  void end(const RunEnd& end);

  const OutputFolder& folder() const {
    return folder_;
  }

 private:
  void write_facts() const;

  OutputFolder folder_;
  nlohmann::ordered_json facts_; // run.json, and a table of the report
  report::MetricsFile metrics_;
  report::EventFile events_;
  report::Progress progress_;
  base::TimePoint started_;
  int64_t num_steps_ = 0;
  int64_t report_every_ = 1;
  double seconds_ = 0; // of all updates
  double seconds_since_line_ = 0;
  int64_t updates_since_line_ = 0;
};

// For a run whose rank 0 could not say how it ended, since it was killed.
void end_unended_run(const std::string& folder, const std::string& how);

} // namespace zero::tasks

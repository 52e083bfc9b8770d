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
#include <string>
#include <vector>

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
  bool trace = false;
  int terminal_fd = -1;
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
  std::vector<double> resident; // bytes
};

struct EvaluationRecord {
  int64_t step = 0;
  Results results;
  double seconds = 0;
  int64_t samples = 0;
  std::string text;
  bool is_best = false;
};

class RunRecord {
 public:
  // Throws: as OutputFolder does; IoError.
  RunRecord(const TrainConfig& config, const TrainOptions& options);

  void begin(int64_t num_steps, int64_t report_every);

  void say(const std::string& line);
  void add(const UpdateRecord& update);
  void add(const EvaluationRecord& evaluation);

  // What the report's table shows, and run.json has.
  void set_fact(const std::string& name, const std::string& text);
  void set_fact(const std::string& name, double number);
  void set_fact(const std::string& name, int64_t number);
  void write_facts() const;

  // Writes the page that shows the run, and returns its path.
  std::string write_report() const;

  const OutputFolder& folder() const {
    return folder_;
  }

 private:
  OutputFolder folder_;
  report::MetricsFile metrics_;
  report::EventFile events_;
  report::Progress progress_;
  nlohmann::ordered_json facts_;
  int64_t num_steps_ = 0;
  int64_t report_every_ = 1;
  double seconds_ = 0; // of all updates
  double seconds_since_line_ = 0;
  int64_t updates_since_line_ = 0;
};

} // namespace zero::tasks

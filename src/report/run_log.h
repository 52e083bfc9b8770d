// Defines RunLog: what a training run left in its folder, read back.
//
//   RunLog run = read_run("runs/first");
//   run.updates.back().loss;
//
// A run folder has metrics.jsonl, with a line of JSON for every update and
// every evaluation, and may have config.json and run.json. A run can be looked
// at while it goes on, and after it was killed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "report/chart.h"

namespace zero::report {

// Of a value that was not written, or that was not finite.
inline constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

// The order of RunLog's memory and traffic.
inline constexpr std::array kMemoryParts = {
    "parameters",
    "gathered",
    "gathered_peak",
    "gradients",
    "optimizer",
    "buffers",
    "spilled"};
inline constexpr std::array kTrafficParts = {
    "intra_node",
    "inter_node",
    "control"};

// Numbers are floats because a run can have a million updates, and a chart
// shows four digits.
struct Update {
  int64_t step = 0;
  float epoch = kNoValue;
  float loss = kNoValue;
  float lr = kNoValue;
  float grad_norm = kNoValue;
  float seconds = kNoValue;
  float samples_per_second = kNoValue;
  float tokens_per_second = kNoValue;
  std::array<float, kMemoryParts.size()> memory{}; // bytes of rank 0
  std::array<float, kTrafficParts.size()> traffic{}; // bytes into rank 0
  // Where RunLog::per_rank has its values, and of how many ranks.
  uint32_t num_ranks = 0;
  size_t ranks_begin = 0;

  // At once: of what is gathered, the most there was.
  double memory_bytes() const;
  double traffic_bytes() const;
};

struct Evaluation {
  int64_t step = 0;
  float loss = kNoValue;
  float perplexity = kNoValue;
  float accuracy = kNoValue; // 0 to 1, as is top5
  float top5 = kNoValue;
  float seconds = kNoValue;
  std::string text = {}; // that the model wrote, or nothing
};

// What happened on the way: the run was resumed, or a rank was lost.
struct Note {
  int64_t step = 0;
  std::string text;
};

// A name and what it is, as text: of run.json, or of config.json with the keys
// that lead to it ("optimizer.params.lr").
struct Fact {
  std::string name;
  std::string value;
};

struct RunLog {
  std::string folder;
  std::string name; // the last part of the folder's path
  std::vector<Update> updates; // by step, each step once
  std::vector<Evaluation> evaluations; // likewise
  std::vector<Note> notes; // as they were written
  // One after another, for each update: seconds of waiting of every rank,
  // seconds of communication, resident bytes.
  std::vector<float> per_rank;
  std::vector<Fact> facts;
  std::vector<Fact> settings;
  std::string config; // indented JSON, empty if there is none

  // How well communication hid behind computation: the share of their time that
  // the ranks' training threads did not wait, from 0 to 1; of one update, or of
  // the run. No value if it is not known.
  double overlap(const Update& update) const; // one of the run's
  double overlap() const;

  std::span<const float> waiting(const Update& update) const {
    return ranks(update, 0);
  }
  std::span<const float> communication(const Update& update) const {
    return ranks(update, 1);
  }
  std::span<const float> resident(const Update& update) const {
    return ranks(update, 2);
  }

 private:
  double seconds_waited_in(const Update& update) const;
  std::span<const float> ranks(const Update& update, size_t which) const {
    const size_t begin = update.ranks_begin + which * update.num_ranks;
    return std::span(per_rank).subspan(begin, update.num_ranks);
  }
};

// A step that was written twice, because the run was resumed, counts as it was
// written last. A last line that is not whole is passed over.
// Throws: IoError if the folder has no metrics.jsonl; CorruptionError for a
// line, or another file, that is not JSON.
RunLog read_run(const std::string& folder);

// ---- curves: a value over the steps of a run ----

using Points = std::vector<Point>;
using UpdateValue = std::function<double(const RunLog&, const Update&)>;

UpdateValue field(float Update::*member);
Points curve(const RunLog& run, const UpdateValue& value);
Points curve(const RunLog& run, float Evaluation::*member);

// Without what is not finite; no value if there is nothing else.
double lowest(const Points& points);
double highest(const Points& points);
double median(const Points& points);
bool is_empty(const Points& points);

// Every point as the mean of the last smooth_over() ones that are finite, which
// is a fiftieth of them all.
Points smoothed(const Points& points);
size_t smooth_over(const Points& points);

} // namespace zero::report

// Defines how each part of a configuration is read. Config::from_json calls
// them in turn; they put mistakes of form in the report, and check() below
// those of value, for configurations that were set by hand as well.
#pragma once

#include <zero/config.h>

#include "config/fields.h"
#include "config/report.h"
#include "config/section.h"

namespace zero::config {

// Reads fields: a visitor of fields.h.
class FieldReader {
 public:
  explicit FieldReader(Section& section, Auto on_auto = Auto::refused)
      : section_(section), on_auto_(on_auto) {}

  template <class T>
  void operator()(const char* key, T& field, const Range& /*range*/) {
    section_.read(key, field, on_auto_);
  }
  template <class Words, class Enum>
  void word(const char* key, Enum& field, const Words& words) {
    section_.read_word(key, words, field);
  }

 private:
  Section& section_;
  Auto on_auto_;
};

// All of the below, and what stands at the top level.
void read_config(Section& root, Config& config);

void read_optimizer(Section section, OptimizerConfig& optimizer);
void read_scheduler(Section section, SchedulerConfig& scheduler);
void read_zero_optimization(Section& root, ZeroOptimizationConfig& zero);
void read_libzero(Section section, LibzeroConfig& libzero);

// Everything that can be wrong with values, whoever has set them.
void check(const Config& config, Report& report);

// Of that, what does not depend on the number of ranks.
void check_batch_sizes(const Config& config, Report& report);

} // namespace zero::config

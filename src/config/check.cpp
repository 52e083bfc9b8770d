// Checks the values of a configuration, whoever has set them.
#include <cmath>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "config/field_checker.h"
#include "config/sections.h"
#include "config/wording.h"

namespace zero::config {

namespace {

void check_optimizer(const OptimizerConfig& optimizer, Report& report) {
  FieldChecker checker(report, "optimizer.params");
  visit_optimizer(checker, optimizer);
  const bool is_nesterov =
      optimizer.type == OptimizerConfig::Type::sgd && optimizer.nesterov;
  if (is_nesterov && (optimizer.momentum <= 0 || optimizer.dampening != 0)) {
    report.add(
        "optimizer.params.nesterov",
        c10::str(
            "momentum is ",
            shown(optimizer.momentum),
            " and dampening ",
            shown(optimizer.dampening),
            ", expected momentum above 0 and no dampening. Fix: set momentum, "
            "or nesterov to false"));
  }
}

void check_libzero(const LibzeroConfig& libzero, Report& report) {
  FieldChecker checker(report, "libzero");
  visit_libzero(checker, libzero);
  const double type = libzero.clip_norm_type;
  checker.expect(
      type == 1 || type == 2 || (std::isinf(type) && type > 0),
      "clip_norm_type",
      shown(type),
      "1, 2 or infinity");
  for (size_t i = 0; i < libzero.parameter_groups.size(); ++i) {
    const ParameterGroup& group = libzero.parameter_groups[i];
    FieldChecker of_group(
        report, c10::str("libzero.parameter_groups[", i, "]"));
    visit_parameter_group(of_group, group);
    of_group.expect(
        !group.match.empty(), "match", "\"\"", "a pattern such as \"*.bias\"");
  }
}

} // namespace

void check_batch_sizes(const Config& config, Report& report) {
  visit_batch_sizes(FieldChecker(report, ""), config);
  // With it alone DeepSpeed has nothing to work the others out from either.
  const bool is_alone =
      !config.train_batch_size && !config.train_micro_batch_size_per_gpu;
  const bool are_others_wrong = report.is_about("train_batch_size") ||
      report.is_about("train_micro_batch_size_per_gpu");
  if (config.gradient_accumulation_steps && is_alone && !are_others_wrong) {
    report.add(
        "gradient_accumulation_steps",
        "given alone, expected one of the other sizes with it. Fix: set "
        "train_micro_batch_size_per_gpu or train_batch_size");
  }
}

void check(const Config& config, Report& report) {
  check_batch_sizes(config, report);
  visit_top_level(FieldChecker(report, ""), config);
  check_optimizer(config.optimizer, report);
  visit_scheduler(FieldChecker(report, "scheduler.params"), config.scheduler);
  FieldChecker zero(report, "zero_optimization");
  zero("stage", config.zero_optimization.stage, kStage);
  visit_zero_optimization(zero, config.zero_optimization);
  check_libzero(config.libzero, report);
}

} // namespace zero::config

// Checks the values of a configuration, whoever has set them.
#include <cmath>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "config/sections.h"
#include "config/wording.h"

namespace zero::config {

namespace {

// Checks fields: a visitor of fields.h.
class FieldChecker {
 public:
  FieldChecker(Report& report, std::string section)
      : report_(report), section_(std::move(section)) {}

  void operator()(const char* key, double field, const Range& range) {
    expect(range.contains(field), key, shown(field), range.expected);
  }
  void operator()(const char* key, int64_t field, const Range& range) {
    expect(
        range.contains(static_cast<double>(field)),
        key,
        std::to_string(field),
        range.expected);
  }
  void operator()(const char* key, int field, const Range& range) {
    (*this)(key, int64_t{field}, range);
  }
  void operator()(
      const char* key,
      const std::array<double, 2>& field,
      const Range& range) {
    expect(
        range.contains(field[0]) && range.contains(field[1]),
        key,
        c10::str("[", shown(field[0]), ", ", shown(field[1]), "]"),
        c10::str(range.expected, " twice"));
  }
  void operator()(
      const char* key,
      const ByteBudget& field,
      const Range& /*range*/) {
    if (field.bytes) {
      (*this)(key, *field.bytes, kWholeNotNegative);
    } else {
      expect(
          field.share >= 0 && field.share <= 1,
          key,
          c10::str("a share of ", shown(field.share)),
          R"(a share from 0 to 1, that is from "0%" to "100%")");
    }
  }
  template <class T>
  void operator()(
      const char* key,
      const std::optional<T>& field,
      const Range& range) {
    if (field) {
      (*this)(key, *field, range);
    }
  }
  void operator()(const char*, bool, const Range&) {}
  void operator()(const char*, const std::string&, const Range&) {}

  template <class Words, class Enum>
  void word(const char* key, Enum field, const Words& words) {
    bool is_known = false;
    for (const auto& word : words) {
      is_known = is_known || word.value == field;
    }
    expect(is_known, key, "no value of its type", "one of them");
  }

  void expect(
      bool is_right,
      const char* key,
      const std::string& got,
      const std::string& expected) {
    const std::string path = join_path(section_, key);
    if (!is_right && !report_.is_about(path) && !report_.is_about(section_)) {
      report_.expected(path, got, expected);
    }
  }

 private:
  Report& report_;
  std::string section_;
};

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

// Reads "zero_optimization".
#include "base/error.h"
#include "config/deepspeed_keys.h"
#include "config/sections.h"

namespace zero::config {

namespace {

// DeepSpeed takes these keys of stage 3 without their prefix too.
void read_short_names(Section& section, ZeroOptimizationConfig& zero) {
  const auto read = [&](std::string_view name, int64_t& field) {
    const std::string full = c10::str("stage3_", name);
    if (section.find(name) != nullptr && section.find(full) != nullptr) {
      section.report().add(
          section.path_of(name),
          c10::str("given as ", full, " too. Fix: remove one of them"));
      return;
    }
    section.read(name, field, Auto::absent);
    // Where a mistake about the value is to be found.
    if (const JsonValue* given = section.find(name)) {
      section.report().place(section.path_of(full), given->line);
    }
  };
  read("prefetch_bucket_size", zero.stage3_prefetch_bucket_size);
  read("param_persistence_threshold", zero.stage3_param_persistence_threshold);
  read("max_live_parameters", zero.stage3_max_live_parameters);
}

// Where nothing persists, any cap on it is kept.
void check_persistence_cap(
    Section& section,
    const ZeroOptimizationConfig& zero) {
  for (const std::string_view name :
       {"stage3_model_persistence_threshold", "model_persistence_threshold"}) {
    const JsonValue* given = section.find(name);
    constexpr double kNoCap = 9e18; // DeepSpeed's default, perhaps rounded
    if (given != nullptr && zero.stage3_param_persistence_threshold > 0 &&
        given->number > 0 && given->number < kNoCap) {
      section.report().add(
          section.path_of(name),
          "a cap on persistent parameters is not supported yet. Fix: remove "
          "it, or set stage3_param_persistence_threshold to 0");
    }
  }
}

} // namespace

void read_zero_optimization(Section& root, ZeroOptimizationConfig& zero) {
  constexpr const char* kName = "zero_optimization";
  const JsonValue* given = root.find(kName);
  if (given != nullptr && given->kind == JsonValue::Kind::boolean) {
    zero.stage = given->boolean ? 1 : 0; // DeepSpeed's first form
    given = nullptr;
  }
  Section section(root.report(), given, root.path_of(kName));
  section.read("stage", zero.stage);
  visit_zero_optimization(FieldReader(section, Auto::absent), zero);
  read_short_names(section, zero);
  read_deepspeed_keys(section, zero_optimization_keys());
  check_persistence_cap(section, zero);
}

} // namespace zero::config

// Writes a configuration as it is read.
#include <zero/config.h>

#include <cmath>

#include "config/field_writer.h"

namespace zero {

using config::FieldWriter;
using config::Json;

namespace {

Json write(const OptimizerConfig& optimizer) {
  Json params = Json::object();
  config::visit_optimizer(FieldWriter(params), optimizer);
  const bool is_sgd = optimizer.type == OptimizerConfig::Type::sgd;
  const char* adam = optimizer.adam_w_mode ? "AdamW" : "Adam";
  return {{"type", is_sgd ? "SGD" : adam}, {"params", params}};
}

Json write(const SchedulerConfig& scheduler) {
  Json result = Json::object();
  Json params = Json::object();
  FieldWriter(result).word("type", scheduler.type, config::kSchedulerWords);
  config::visit_scheduler(FieldWriter(params), scheduler);
  result["params"] = params;
  return result;
}

Json write(const ZeroOptimizationConfig& zero) {
  Json result = {{"stage", zero.stage}};
  config::visit_zero_optimization(FieldWriter(result), zero);
  return result;
}

Json write(const LibzeroConfig& libzero) {
  Json result = Json::object();
  config::visit_libzero(FieldWriter(result), libzero);
  if (std::isinf(libzero.clip_norm_type)) {
    result["clip_norm_type"] = "inf";
  } else {
    result["clip_norm_type"] = static_cast<int>(libzero.clip_norm_type);
  }
  Json groups = Json::array();
  for (const ParameterGroup& group : libzero.parameter_groups) {
    Json written = Json::object();
    config::visit_parameter_group(FieldWriter(written), group);
    groups.push_back(written);
  }
  result["parameter_groups"] = groups;
  return result;
}

} // namespace

std::string Config::to_json() const {
  validate(); // what is no number has no place in JSON
  Json result = Json::object();
  config::visit_batch_sizes(FieldWriter(result), *this);
  config::visit_top_level(FieldWriter(result), *this);
  result["optimizer"] = write(optimizer);
  if (scheduler.type != SchedulerConfig::Type::none) {
    result["scheduler"] = write(scheduler);
  }
  result["zero_optimization"] = write(zero_optimization);
  result["libzero"] = write(libzero);
  // A name that is no UTF-8 is written with a mark rather than not at all.
  return result.dump(2, ' ', false, Json::error_handler_t::replace);
}

} // namespace zero

#include <zero/config.h>

#include "base/error.h"
#include "base/file_io.h"
#include "config/deepspeed_keys.h"
#include "config/parse_json.h"
#include "config/sections.h"

namespace zero {

namespace {

// Whoever has none of them reads the file without its sections.
void pass_over_the_trainer(config::Section& root) {
  for (const char* of_the_trainer : {"model", "data", "train"}) {
    const config::JsonValue* given = root.find(of_the_trainer);
    if (given != nullptr && !given->is_object()) {
      root.refuse_value(of_the_trainer, *given, "an object");
    }
  }
}

} // namespace

void config::read_config(Section& root, Config& config) {
  visit_batch_sizes(FieldReader(root, Auto::absent), config);
  visit_top_level(FieldReader(root), config);
  read_optimizer(root.section("optimizer"), config.optimizer);
  read_scheduler(root.section("scheduler"), config.scheduler);
  read_zero_optimization(root, config.zero_optimization);
  read_libzero(root.section("libzero"), config.libzero);
  read_deepspeed_keys(root, top_level_keys());
}

Config Config::from_file(const std::string& path) {
  return from_json(
      base::read_file(path, "the configuration " + path, config::kMaxJsonBytes),
      path);
}

Config Config::from_json(std::string_view text, const std::string& origin) {
  config::Report report(origin);
  const config::JsonValue document = config::parse_json(text, origin, report);
  Config config;
  config::Section root(report, &document, "");
  config::read_config(root, config);
  pass_over_the_trainer(root);
  config::check(config, report);
  report.throw_if_any();
  return config;
}

void Config::validate() const {
  config::Report report("configuration");
  config::check(*this, report);
  report.throw_if_any();
}

} // namespace zero

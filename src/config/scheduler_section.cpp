// Reads "scheduler".
#include "config/deepspeed_keys.h"
#include "config/sections.h"

namespace zero::config {

void read_scheduler(Section section, SchedulerConfig& scheduler) {
  using Type = SchedulerConfig::Type;
  if (section.is_given()) {
    section.require("type", "the name of a schedule");
  }
  section.read_word("type", kSchedulerWords, scheduler.type);
  if (scheduler.type == Type::none) {
    section.find("params"); // of whom is not known
    return;
  }
  Section params = section.section("params");
  if (scheduler.type == Type::one_cycle) {
    params.require("cycle_min_lr", "OneCycle has no default for it");
    params.require("cycle_max_lr", "OneCycle has no default for it");
  }
  const bool has_end = scheduler.type == Type::warmup_decay_lr ||
      scheduler.type == Type::warmup_cosine_lr;
  if (has_end) {
    params.require("total_num_steps", "the schedule ends with it");
  }
  if (scheduler.type == Type::warmup_decay_lr) {
    scheduler.warmup_max_lr = 0.001; // as in DeepSpeed, only here
  }
  visit_scheduler(FieldReader(params), scheduler);
  read_deepspeed_keys(params, scheduler_keys());
}

} // namespace zero::config

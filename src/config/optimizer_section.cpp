// Reads "optimizer".
#include "base/error.h"
#include "config/deepspeed_keys.h"
#include "config/sections.h"
#include "config/wording.h"

namespace zero::config {

namespace {

enum class Name { adam, adamw, sgd };

// DeepSpeed lowers the case of the names it knows.
std::optional<Name> read_name(Section& section) {
  if (section.is_given()) {
    section.require("type", "one of Adam, AdamW and SGD");
  }
  const JsonValue* given = section.find("type");
  if (given == nullptr) {
    return std::nullopt;
  }
  const std::string name = lower_case(given->text);
  if (name == "adam") {
    return Name::adam;
  }
  if (name == "adamw") {
    return Name::adamw;
  }
  if (name == "sgd") {
    return Name::sgd;
  }
  section.report().expected(
      section.path_of("type"),
      given->describe(),
      R"("Adam", "AdamW" or "SGD"; others are not supported yet)",
      "choose one of these, or give the engine a zero::Optimizer of your own");
  return std::nullopt;
}

void read_adam(Section& params, Name name, OptimizerConfig& adam) {
  visit_optimizer(FieldReader(params), adam);
  if (name == Name::adamw) {
    adam.adam_w_mode = true; // whatever the parameter says, as in DeepSpeed
  }
  // The same arithmetic, but for one default: torch's AdamW decays by 0.01
  // where DeepSpeed's own does not.
  bool is_torch = false;
  params.read("torch_adam", is_torch);
  if (is_torch && adam.adam_w_mode && params.find("weight_decay") == nullptr) {
    adam.weight_decay = 0.01;
  }
  read_deepspeed_keys(params, adam_keys());
}

} // namespace

void read_optimizer(Section section, OptimizerConfig& optimizer) {
  const std::optional<Name> name = read_name(section);
  read_deepspeed_keys(section, optimizer_keys());
  if (!name && section.is_given()) {
    section.find("params"); // of whom is not known
    return;
  }
  Section params = section.section("params");
  if (name == Name::sgd) {
    optimizer.type = OptimizerConfig::Type::sgd;
    visit_optimizer(FieldReader(params), optimizer);
    read_deepspeed_keys(params, sgd_keys());
  } else {
    read_adam(params, name.value_or(Name::adam), optimizer);
  }
}

} // namespace zero::config

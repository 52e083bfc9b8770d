// Reads "libzero".
#include <limits>

#include "base/error.h"
#include "config/sections.h"
#include "config/wording.h"

namespace zero::config {

namespace {

// JSON has no infinity.
void read_clip_norm_type(Section& section, double& type) {
  const JsonValue* given = section.find("clip_norm_type");
  if (given == nullptr) {
    return;
  }
  double number = 0;
  const std::string word = lower_case(given->text);
  if (word == "inf" || word == "infinity") {
    type = std::numeric_limits<double>::infinity();
  } else if (
      convert(*given, number) == nullptr && (number == 1 || number == 2)) {
    type = number;
  } else {
    section.refuse_value("clip_norm_type", *given, "1, 2 or \"inf\"");
  }
}

void read_parameter_groups(
    Section& section,
    std::vector<ParameterGroup>& groups) {
  const JsonValue* given = section.find("parameter_groups");
  if (given == nullptr) {
    return;
  }
  if (given->kind != JsonValue::Kind::list) {
    section.refuse_value(
        "parameter_groups", *given, "a list of objects with match");
    return;
  }
  for (size_t i = 0; i < given->elements.size(); ++i) {
    Section group(
        section.report(),
        &given->elements[i],
        c10::str(section.path_of("parameter_groups"), "[", i, "]"),
        /*is_home=*/false);
    if (group.is_given()) {
      group.require("match", "a pattern of names such as \"*.bias\"");
    }
    visit_parameter_group(FieldReader(group), groups.emplace_back());
  }
}

} // namespace

void read_libzero(Section section, LibzeroConfig& libzero) {
  visit_libzero(FieldReader(section), libzero);
  read_clip_norm_type(section, libzero.clip_norm_type);
  read_parameter_groups(section, libzero.parameter_groups);
}

} // namespace zero::config

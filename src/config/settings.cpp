#include "config/settings.h"

#include <string>

#include "base/error.h"
#include "config/parse_json.h"
#include "config/wording.h"

namespace zero::config {

namespace {

void set_line(JsonValue& value) {
  value.line = kSetLine;
  for (JsonValue& element : value.elements) {
    set_line(element);
  }
}

JsonValue parse_setting_value(std::string_view text) {
  JsonValue value;
  try {
    Report report("--set");
    value = parse_json(text, "--set", report);
    report.throw_if_any();
  } catch (const ConfigError&) {
    value = {};
    value.kind = JsonValue::Kind::text;
    value.text = text;
  }
  set_line(value);
  return value;
}

JsonValue& element_of(JsonValue& object, std::string_view key) {
  for (size_t i = 0; i < object.keys.size(); ++i) {
    if (object.keys[i] == key) {
      return object.elements[i];
    }
  }
  object.keys.emplace_back(key);
  object.elements.emplace_back();
  return object.elements.back();
}

} // namespace

void apply_setting(JsonValue& root, std::string_view setting) {
  const auto refuse = [&](const char* what) {
    throw ConfigError(c10::str(
        "--set ",
        printable(setting),
        ": ",
        what,
        ". Fix: write it as --set section.key=value"));
  };
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos) {
    refuse("there is no '='");
  }
  std::string_view path = setting.substr(0, equals);
  JsonValue* place = &root;
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    if (key.empty()) {
      refuse("a key is empty");
    }
    if (!place->is_object()) {
      refuse("what stands before the last key is no object");
    }
    place = &element_of(*place, key);
    if (dot == std::string_view::npos) {
      break;
    }
    if (place->kind == JsonValue::Kind::null) {
      place->kind = JsonValue::Kind::object;
      place->line = kSetLine;
    }
    path.remove_prefix(dot + 1);
  }
  *place = parse_setting_value(setting.substr(equals + 1));
}

} // namespace zero::config

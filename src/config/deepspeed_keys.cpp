#include "config/deepspeed_keys.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/wording.h"

namespace zero::config {

namespace {

using Kind = DeepSpeedKey::Kind;

bool is_texts(const JsonValue& given) {
  return given.kind == JsonValue::Kind::list &&
      std::all_of(
             given.elements.begin(),
             given.elements.end(),
             [](const JsonValue& element) {
               return element.kind == JsonValue::Kind::text;
             });
}

// nullptr, or what was expected.
const char* check_kind(Kind kind, const JsonValue& given) {
  bool boolean = false;
  int64_t integer = 0;
  std::string text;
  switch (kind) {
    case Kind::boolean:
      return convert(given, boolean);
    case Kind::count:
      return convert(given, integer) == nullptr && integer >= 0
          ? nullptr
          : "a whole number of at least 0";
    case Kind::integer:
      return convert(given, integer);
    case Kind::text:
      return convert(given, text);
    case Kind::texts:
      return convert(given, text) == nullptr || is_texts(given)
          ? nullptr
          : "a list of texts";
    default:
      return nullptr;
  }
}

// As the tables write it.
std::string plain(const JsonValue& given) {
  int64_t integer = 0;
  if (convert(given, integer) == nullptr) {
    return std::to_string(integer);
  }
  return given.kind == JsonValue::Kind::text ? given.text : given.describe();
}

bool is_off(const JsonValue& given, std::string_view off) {
  const std::vector<std::string> values = split(off);
  const std::string value = lower_case(plain(given));
  return values.empty() ||
      std::any_of(values.begin(), values.end(), [&](const std::string& word) {
           return lower_case(word) == value;
         });
}

bool is_absent(const JsonValue& given) {
  return given.kind == JsonValue::Kind::null || given.is_text("auto");
}

void refuse(Section& section, const DeepSpeedKey& key, const JsonValue& given) {
  std::vector<std::string> values = split(key.off);
  if (key.kind == Kind::text) {
    std::transform(values.begin(), values.end(), values.begin(), in_quotes);
  }
  section.report().add(
      section.path_of(key.name),
      c10::str(
          "DeepSpeed's ",
          key.name,
          " is not supported yet: got ",
          given.describe(),
          ", expected ",
          either(values),
          ". Fix: remove it, or set it to ",
          values.front()));
}

Section open(Section& section, const DeepSpeedKey& key) {
  const JsonValue* given = section.find(key.name);
  if (given != nullptr && given->kind == JsonValue::Kind::null) {
    given = nullptr;
  }
  return {
      section.report(), given, section.path_of(key.name), /*is_home=*/false};
}

void read_switched(Section& section, const DeepSpeedKey& key) {
  Section inside = open(section, key);
  for (const std::string& name : split(key.others)) {
    inside.find(name);
  }
  const JsonValue* position = inside.find(key.switch_name);
  const bool is_text = key.off == "none";
  bool is_on = inside.is_given() && key.is_on_by_default;
  if (position != nullptr && !is_absent(*position)) {
    if (const char* expected =
            check_kind(is_text ? Kind::text : Kind::boolean, *position)) {
      inside.refuse_value(key.switch_name, *position, expected);
      return;
    }
    is_on = !is_off(*position, key.off);
  }
  if (is_on) {
    section.report().add(
        section.path_of(key.name),
        c10::str(
            "DeepSpeed's ",
            key.name,
            " is not supported yet. Fix: remove it, or set its ",
            key.switch_name,
            " to ",
            is_text ? in_quotes(key.off) : std::string(key.off)));
  }
}

void read_group(Section& section, const DeepSpeedKey& key) {
  Section inside = open(section, key);
  read_deepspeed_keys(inside, key.keys);
}

void read_value(Section& section, const DeepSpeedKey& key) {
  const JsonValue* given = section.find(key.name);
  if (given == nullptr || is_absent(*given)) {
    return;
  }
  if (const char* expected = check_kind(key.kind, *given)) {
    section.refuse_value(key.name, *given, expected);
  } else if (!is_off(*given, key.off)) {
    refuse(section, key, *given);
  }
}

// What has no place here whatever its value.
void read_refused(
    Section& section,
    const DeepSpeedKey& key,
    std::string_view why) {
  if (section.find(key.name) != nullptr) {
    section.report().add(
        section.path_of(key.name), c10::str(why, ". Fix: ", key.fix));
  }
}

} // namespace

void read_deepspeed_keys(Section& section, std::span<const DeepSpeedKey> keys) {
  for (const DeepSpeedKey& key : keys) {
    switch (key.kind) {
      case Kind::switched:
        read_switched(section, key);
        break;
      case Kind::group:
        read_group(section, key);
        break;
      case Kind::removed:
        read_refused(section, key, "removed from DeepSpeed, and not supported");
        break;
      case Kind::misplaced:
        read_refused(section, key, "not supported here");
        break;
      default:
        read_value(section, key);
    }
  }
}

} // namespace zero::config

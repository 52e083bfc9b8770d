#include "config/json_value.h"

#include <algorithm>

#include "base/error.h"
#include "config/wording.h"

namespace zero::config {

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &elements[found - keys.begin()];
}

std::string JsonValue::describe() const {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return boolean ? "true" : "false";
    case Kind::integer:
      return std::to_string(integer);
    case Kind::number:
      return shown(number);
    case Kind::text:
      return in_quotes(text);
    case Kind::list:
      return c10::str(
          "a list of ",
          elements.size(),
          elements.size() == 1 ? " value" : " values");
    case Kind::object:
      return "an object";
  }
  return {};
}

} // namespace zero::config

// Defines FieldWriter, a visitor of fields: writes them as they are read.
//
//   Json params = Json::object();
//   visit_optimizer(FieldWriter(params), optimizer);
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "config/fields.h"
#include "config/percentage.h"

namespace zero::config {

using Json = nlohmann::ordered_json;

class FieldWriter {
 public:
  explicit FieldWriter(Json& object) : object_(object) {}

  template <class T>
  void operator()(const char* key, const T& field, const Range&) {
    object_[key] = field;
  }
  // What is not given is written where null means just that, which for the
  // warm-up of WarmupDecayLR is not the same as being absent.
  template <class T>
  void operator()(
      const char* key,
      const std::optional<T>& field,
      const Range& /*range*/) {
    if (field) {
      object_[key] = *field;
    } else {
      object_[key] = nullptr;
    }
  }
  void operator()(
      const char* key,
      const ByteBudget& field,
      const Range& /*range*/) {
    if (field.bytes) {
      object_[key] = *field.bytes;
    } else {
      object_[key] = to_percentage(field.share);
    }
  }
  template <class Words, class Enum>
  void word(const char* key, Enum field, const Words& words) {
    for (const auto& word : words) {
      if (word.value == field) {
        object_[key] = word.text;
      }
    }
  }

 private:
  Json& object_;
};

} // namespace zero::config

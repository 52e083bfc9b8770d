// Defines Section: typed access to one object of a configuration. What is asked
// for becomes a known key, what does not fit becomes a mistake in the report,
// and the value keeps its default then.
//
//   Section optimizer(report, root.find("optimizer"), "optimizer");
//   Section params = optimizer.section("params");
//   params.read("lr", config.lr);
#pragma once

#include <zero/config.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/json_value.h"
#include "config/report.h"

namespace zero::config {

// "auto" stands for what Hugging Face's trainer would fill in from its own
// arguments. Where DeepSpeed's default, or arithmetic, gives the value, it is
// as if the key were absent, and so is null; elsewhere there is nothing to take
// it from.
enum class Auto { refused, absent };

template <class Enum>
struct Word {
  const char* text;
  Enum value;
};

class Section {
 public:
  // `object` is nullptr if there is none: keys become known all the same, so
  // that one that stands elsewhere can be told where it belongs.
  Section(
      Report& report,
      const JsonValue* object,
      std::string path,
      bool is_home = true);

  // nullptr if it is not given.
  const JsonValue* find(std::string_view key);

  // bool, int, int64_t, double, std::string, ...: what convert() below knows.
  template <class T>
  void read(std::string_view key, T& value, Auto on_auto = Auto::refused) {
    const JsonValue* given = find(key);
    if (given == nullptr || skips_auto(*given, on_auto)) {
      return;
    }
    T converted = value;
    if (const char* expected = convert(*given, converted)) {
      refuse_value(key, *given, expected);
    } else {
      value = std::move(converted);
    }
  }

  // One of a few words.
  template <class Words, class Enum>
  void read_word(std::string_view key, const Words& words, Enum& value) {
    const JsonValue* given = find(key);
    if (given == nullptr) {
      return;
    }
    std::vector<std::string> known;
    for (const auto& word : words) {
      if (given->is_text(word.text)) {
        value = word.value;
        return;
      }
      known.emplace_back(word.text);
    }
    refuse_word(key, *given, known);
  }

  // An object inside this one.
  Section section(std::string_view key);

  // A mistake unless the key is given.
  void require(std::string_view key, std::string_view why = {});

  void refuse_value(
      std::string_view key,
      const JsonValue& given,
      const std::string& expected);
  void refuse_word(
      std::string_view key,
      const JsonValue& given,
      const std::vector<std::string>& known);

  std::string path_of(std::string_view key) const {
    return join_path(path_, key);
  }
  Report& report() const {
    return *report_;
  }
  bool is_given() const {
    return object_ != nullptr;
  }

 private:
  static bool skips_auto(const JsonValue& given, Auto on_auto) {
    return on_auto == Auto::absent &&
        (given.is_text("auto") || given.kind == JsonValue::Kind::null);
  }

  Report* report_;
  const JsonValue* object_;
  std::string path_;
};

// They return nullptr, or what they expected. A number without a fraction, such
// as 5e8, is a whole number, as in DeepSpeed.
const char* convert(const JsonValue& given, bool& value);
const char* convert(const JsonValue& given, int& value);
const char* convert(const JsonValue& given, int64_t& value);
const char* convert(const JsonValue& given, double& value);
const char* convert(const JsonValue& given, std::string& value);
const char* convert(const JsonValue& given, std::array<double, 2>& value);
const char* convert(const JsonValue& given, std::vector<double>& value);
const char* convert(const JsonValue& given, ByteBudget& value);

// null is nothing.
template <class T>
const char* convert(const JsonValue& given, std::optional<T>& value) {
  if (given.kind == JsonValue::Kind::null) {
    value.reset();
    return nullptr;
  }
  T converted{};
  const char* expected = convert(given, converted);
  if (expected == nullptr) {
    value = std::move(converted);
  }
  return expected;
}

} // namespace zero::config

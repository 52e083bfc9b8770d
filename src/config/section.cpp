#include "config/section.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "config/nearest.h"
#include "config/percentage.h"
#include "config/wording.h"

namespace zero::config {

namespace {

constexpr const char* kWholeNumber = "a whole number";
constexpr const char* kByteBudget =
    "a number of bytes, or a share such as \"25%\"";

// Whether it would be right without its quotes.
bool is_quoted_value(const JsonValue& given) {
  if (given.is_text("true") || given.is_text("false")) {
    return true;
  }
  double number = 0;
  const char* end = given.text.data() + given.text.size();
  const auto parsed = std::from_chars(given.text.data(), end, number);
  return given.kind == JsonValue::Kind::text && parsed.ec == std::errc() &&
      parsed.ptr == end;
}

} // namespace

Section::Section(
    Report& report,
    const JsonValue* object,
    std::string path,
    bool is_home)
    : report_(&report), object_(object), path_(std::move(path)) {
  if (object_ != nullptr && !object_->is_object()) {
    report.place(path_, object_->line);
    report.expected(
        path_, object_->describe(), "an object", "write it between { and }");
    object_ = nullptr;
  }
  if (object_ != nullptr) {
    report.place(path_, object_->line);
  }
  report.open(path_, object_, is_home);
}

const JsonValue* Section::find(std::string_view key) {
  report_->make_known(path_, key);
  const JsonValue* given = object_ == nullptr ? nullptr : object_->find(key);
  if (given != nullptr) {
    report_->place(path_of(key), given->line);
  }
  return given;
}

Section Section::section(std::string_view key) {
  return {*report_, find(key), path_of(key)};
}

void Section::require(std::string_view key, std::string_view why) {
  if (find(key) == nullptr && !report_->is_about(path_)) {
    report_->add(
        path_of(key),
        c10::str(
            "missing", why.empty() ? "" : ", ", why, ". Fix: add the key"));
  }
}

void Section::refuse_value(
    std::string_view key,
    const JsonValue& given,
    const std::string& expected) {
  if (given.is_text("auto")) {
    report_->add(
        path_of(key),
        c10::str(
            "\"auto\" cannot be worked out here, expected ",
            expected,
            ". Fix: write the value"));
  } else if (is_quoted_value(given)) {
    report_->expected(
        path_of(key), given.describe(), expected, "remove the quotes");
  } else {
    report_->expected(path_of(key), given.describe(), expected);
  }
}

void Section::refuse_word(
    std::string_view key,
    const JsonValue& given,
    const std::vector<std::string>& known) {
  std::vector<std::string> quotations;
  quotations.reserve(known.size());
  for (const std::string& word : known) {
    quotations.push_back(in_quotes(word));
  }
  const auto guess = given.kind == JsonValue::Kind::text
      ? nearest(given.text, known)
      : std::nullopt;
  report_->expected(
      path_of(key),
      given.describe(),
      either(quotations),
      guess ? c10::str("did you mean ", in_quotes(*guess), "?")
            : "choose one of these");
}

const char* convert(const JsonValue& given, bool& value) {
  if (given.kind != JsonValue::Kind::boolean) {
    return "true or false";
  }
  value = given.boolean;
  return nullptr;
}

const char* convert(const JsonValue& given, int64_t& value) {
  if (given.kind == JsonValue::Kind::integer) {
    value = given.integer;
    return nullptr;
  }
  // The bound is a power of two: as a double it is exact.
  constexpr double kLimit = 9223372036854775808.0;
  if (given.kind != JsonValue::Kind::number ||
      std::trunc(given.number) != given.number) {
    return kWholeNumber;
  }
  if (given.number < -kLimit || given.number >= kLimit) {
    return "a whole number of 64 bits";
  }
  value = static_cast<int64_t>(given.number);
  return nullptr;
}

const char* convert(const JsonValue& given, int& value) {
  int64_t wide = 0;
  if (const char* expected = convert(given, wide)) {
    return expected;
  }
  if (wide < std::numeric_limits<int>::min() ||
      wide > std::numeric_limits<int>::max()) {
    return "a whole number of 32 bits";
  }
  value = static_cast<int>(wide);
  return nullptr;
}

const char* convert(const JsonValue& given, double& value) {
  if (given.kind != JsonValue::Kind::integer &&
      given.kind != JsonValue::Kind::number) {
    return "a number";
  }
  value = given.number;
  return nullptr;
}

const char* convert(const JsonValue& given, std::string& value) {
  if (given.kind != JsonValue::Kind::text) {
    return "a text";
  }
  value = given.text;
  return nullptr;
}

const char* convert(const JsonValue& given, std::array<double, 2>& value) {
  if (given.kind != JsonValue::Kind::list || given.elements.size() != 2 ||
      convert(given.elements[0], value[0]) != nullptr ||
      convert(given.elements[1], value[1]) != nullptr) {
    return "a list of two numbers";
  }
  return nullptr;
}

const char* convert(const JsonValue& given, std::vector<double>& value) {
  constexpr const char* kNumbers = "a list of numbers";
  if (given.kind != JsonValue::Kind::list) {
    return kNumbers;
  }
  std::vector<double> numbers(given.elements.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (convert(given.elements[i], numbers[i]) != nullptr) {
      return kNumbers;
    }
  }
  value = std::move(numbers);
  return nullptr;
}

const char* convert(const JsonValue& given, ByteBudget& value) {
  if (given.kind == JsonValue::Kind::text) {
    const auto share = parse_percentage(given.text);
    if (!share) {
      return kByteBudget;
    }
    value = {.bytes = std::nullopt, .share = *share};
    return nullptr;
  }
  int64_t bytes = 0;
  if (convert(given, bytes) != nullptr) {
    return kByteBudget;
  }
  value.bytes = bytes;
  return nullptr;
}

} // namespace zero::config

// Defines FieldChecker, a visitor of fields: puts values that make no sense in
// the report.
//
//   visit_optimizer(FieldChecker(report, "optimizer.params"), optimizer);
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/fields.h"
#include "config/report.h"
#include "config/wording.h"

namespace zero::config {

class FieldChecker {
 public:
  FieldChecker(Report& report, std::string section)
      : report_(report), section_(std::move(section)) {}

  void operator()(const char* key, double field, const Range& range) {
    expect(range.contains(field), key, shown(field), range.expected);
  }
  void operator()(const char* key, int64_t field, const Range& range) {
    expect(
        range.contains(static_cast<double>(field)),
        key,
        std::to_string(field),
        range.expected);
  }
  void operator()(const char* key, int field, const Range& range) {
    (*this)(key, int64_t{field}, range);
  }
  void operator()(
      const char* key,
      const std::array<double, 2>& field,
      const Range& range) {
    expect(
        range.contains(field[0]) && range.contains(field[1]),
        key,
        c10::str("[", shown(field[0]), ", ", shown(field[1]), "]"),
        c10::str(range.expected, " twice"));
  }
  void operator()(
      const char* key,
      const ByteBudget& field,
      const Range& /*range*/) {
    if (field.bytes) {
      (*this)(key, *field.bytes, kWholeNotNegative);
    } else {
      expect(
          field.share >= 0 && field.share <= 1,
          key,
          c10::str("a share of ", shown(field.share)),
          R"(a share from 0 to 1, that is from "0%" to "100%")");
    }
  }
  template <class T>
  void operator()(
      const char* key,
      const std::optional<T>& field,
      const Range& range) {
    if (field) {
      (*this)(key, *field, range);
    }
  }
  void operator()(
      const char* key,
      const std::vector<double>& field,
      const Range& range) {
    for (const double number : field) {
      (*this)(key, number, range);
    }
  }
  void operator()(const char*, bool, const Range&) {}
  void operator()(const char*, const std::string&, const Range&) {}

  template <class Words, class Enum>
  void word(const char* key, Enum field, const Words& words) {
    bool is_known = false;
    for (const auto& word : words) {
      is_known = is_known || word.value == field;
    }
    expect(is_known, key, "no value of its type", "one of them");
  }

  void expect(
      bool is_right,
      const char* key,
      const std::string& got,
      const std::string& expected) {
    const std::string path = join_path(section_, key);
    if (!is_right && !report_.is_about(path) && !report_.is_about(section_)) {
      report_.expected(path, got, expected);
    }
  }

 private:
  Report& report_;
  std::string section_;
};

} // namespace zero::config

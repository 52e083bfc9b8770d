// Defines JsonValue: JSON as a tree that remembers lines, so that every mistake
// in a configuration can be found in its file.
//
//   root.find("optimizer")->line
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zero::config {

struct JsonValue {
  enum class Kind { null, boolean, integer, number, text, list, object };

  Kind kind = Kind::null;
  int line = 1; // of its key; of an object in a list, where it begins
  bool boolean = false;
  int64_t integer = 0;
  double number = 0; // of an integer too
  std::string text = {};
  std::vector<JsonValue> elements = {}; // of a list or an object
  std::vector<std::string> keys = {}; // of an object's elements, in order

  bool is_object() const {
    return kind == Kind::object;
  }
  bool is_text(std::string_view word) const {
    return kind == Kind::text && text == word;
  }

  // The element of an object, or nullptr.
  const JsonValue* find(std::string_view key) const;

  // How a message calls it: 12, "abc", a list of 3 values.
  std::string describe() const;
};

} // namespace zero::config

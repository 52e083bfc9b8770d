#include "config/parse_json.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "config/wording.h"

namespace zero::config {

namespace {

// Counts the lines that the parser has read. It reads a key up to its closing
// quote and no further, so at a key the count is exact; after a number it has
// read one character too many.
class LineCounter {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names of the standard
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  // NOLINTEND(readability-identifier-naming)

  LineCounter(const char* at, int* line) : at_(at), line_(line) {}

  reference operator*() const {
    return *at_;
  }
  LineCounter& operator++() {
    if (*at_ == '\n') {
      ++*line_;
    }
    ++at_;
    return *this;
  }
  LineCounter operator++(int) {
    LineCounter before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const LineCounter& a, const LineCounter& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  int* line_;
};

// "zero.json:3:14" of the byte at `offset`
std::string position(
    const std::string& origin,
    std::string_view text,
    size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t column =
      newline == std::string_view::npos ? offset + 1 : offset - newline;
  return c10::str(origin, ":", line, ":", column);
}

// What the parser says, "[json.exception...] parse error at line 1, column 2:
// why", without its introduction, and with no more than the beginning of what
// it quotes from the text.
std::string reason(std::string_view message) {
  const auto skip = [&](std::string_view introduction) {
    const size_t at = message.find(introduction);
    if (at != std::string_view::npos) {
      message.remove_prefix(at + introduction.size());
    }
  };
  skip("] ");
  if (message.starts_with("parse error")) {
    skip(": ");
  }
  for (const std::string_view quoting : {"last read: '", "parsing '"}) {
    const size_t at = message.find(quoting);
    if (at != std::string_view::npos) {
      const size_t token = at + quoting.size();
      return c10::str(
          message.substr(0, token), printable(message.substr(token), true));
    }
  }
  return std::string(message);
}

// What the parser calls, in the order of the text.
class TreeBuilder {
 public:
  TreeBuilder(
      std::string_view text,
      const std::string& origin,
      const int& line,
      Report& report)
      : text_(text), origin_(origin), line_(line), report_(report) {}

  JsonValue take() {
    return std::move(root_);
  }

  bool null() {
    return add({});
  }
  bool boolean(bool value) {
    return add({.kind = JsonValue::Kind::boolean, .boolean = value});
  }
  bool number_integer(int64_t value) {
    return add(
        {.kind = JsonValue::Kind::integer,
         .integer = value,
         .number = static_cast<double>(value)});
  }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return number_float(static_cast<double>(value), {});
    }
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& /*text*/) {
    return add({.kind = JsonValue::Kind::number, .number = value});
  }
  bool string(std::string& value) {
    return add({.kind = JsonValue::Kind::text, .text = std::move(value)});
  }
  bool binary(nlohmann::json::binary_t& /*value*/) {
    return false; // not in text
  }
  bool start_object(size_t /*size*/) {
    return open(JsonValue::Kind::object);
  }
  bool start_array(size_t /*size*/) {
    return open(JsonValue::Kind::list);
  }
  bool end_object() {
    return close();
  }
  bool end_array() {
    return close();
  }

  bool key(std::string& name) {
    Open& object = open_.back();
    object.line = line_;
    const auto [seen, is_new] = object.lines.emplace(name, line_);
    object.value.keys.push_back(std::move(name));
    if (!is_new) {
      report_.place(path(), line_);
      report_.add(
          path(),
          c10::str(
              "given twice, first on line ",
              seen->second,
              ". Fix: remove one of them"));
    }
    return true;
  }

  [[noreturn]] bool parse_error(
      size_t bytes_read,
      const std::string& /*last_token*/,
      const nlohmann::json::exception& error) {
    const size_t offset = bytes_read == 0 ? 0 : bytes_read - 1;
    throw ConfigError(c10::str(
        position(origin_, text_, std::min(offset, text_.size())),
        ": ",
        reason(error.what()),
        ". Fix: correct the JSON there; it has no trailing commas, no NaN, and "
        "quotes around every key"));
  }

 private:
  struct Open {
    JsonValue value;
    int line = 1; // of what is read next in it
    std::map<std::string, int> lines = {}; // of its keys
  };

  // "optimizer.params.betas[1]"
  std::string path() const {
    std::string result;
    for (const Open& open : open_) {
      const bool is_object = open.value.is_object();
      if (is_object && !open.value.keys.empty()) {
        result += result.empty() ? "" : ".";
        result += printable(open.value.keys.back());
      } else if (!is_object) {
        result += c10::str("[", open.value.elements.size(), "]");
      }
    }
    return result;
  }

  [[noreturn]] void give_up(const std::string& what) const {
    throw ConfigError(c10::str(
        origin_,
        ":",
        line_,
        ": ",
        what,
        ". Fix: check that this is a configuration; if it is, shorten it"));
  }

  void count() {
    if (++num_values_ > kMaxJsonValues) {
      give_up(c10::str("more than ", kMaxJsonValues, " values"));
    }
  }

  bool add(JsonValue value) {
    count();
    value.line = open_.empty() ? line_ : open_.back().line;
    attach(std::move(value));
    return true;
  }

  void attach(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().value.elements.push_back(std::move(value));
    }
  }

  bool open(JsonValue::Kind kind) {
    count();
    if (open_.size() >= kMaxJsonDepth) {
      give_up(c10::str("more than ", kMaxJsonDepth, " levels of nesting"));
    }
    const bool has_key = !open_.empty() && open_.back().value.is_object();
    const int line = has_key ? open_.back().line : line_;
    open_.push_back({.value = {.kind = kind, .line = line}, .line = line});
    return true;
  }

  bool close() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    attach(std::move(value));
    return true;
  }

  std::string_view text_;
  const std::string& origin_;
  const int& line_; // how far the parser has read
  Report& report_;
  std::vector<Open> open_;
  JsonValue root_;
  size_t num_values_ = 0;
};

void refuse_what_is_no_text(std::string_view text, const std::string& origin) {
  constexpr const char* kFix = ". Fix: give it a configuration such as {}";
  if (text.size() > kMaxJsonBytes) {
    throw ConfigError(c10::str(
        origin,
        ": ",
        text.size(),
        " bytes or more, expected at most ",
        kMaxJsonBytes,
        kFix));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw ConfigError(
        c10::str(origin, ":1:1: empty, expected a JSON object", kFix));
  }
  // The parser would take it for the end, and what follows would be ignored.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    throw ConfigError(c10::str(
        position(origin, text, nul), ": a NUL byte, expected text", kFix));
  }
}

} // namespace

JsonValue parse_json(
    std::string_view text,
    const std::string& origin,
    Report& report) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size()); // some editors write it
  }
  refuse_what_is_no_text(text, origin);
  int line = 1;
  TreeBuilder builder(text, origin, line, report);
  nlohmann::json::sax_parse(
      LineCounter(text.data(), &line),
      LineCounter(text.data() + text.size(), &line),
      &builder,
      nlohmann::json::input_format_t::json,
      /*strict=*/true,
      /*ignore_comments=*/true);
  return builder.take();
}

} // namespace zero::config

#include "config/report.h"

#include <algorithm>

#include "base/error.h"
#include "config/nearest.h"
#include "config/wording.h"

namespace zero::config {

namespace {

// More help nobody, and hostile text could make any number of them.
constexpr size_t kMaxMistakes = 100;
constexpr size_t kMaxListedKeys = 16;

} // namespace

void Report::place(const std::string& path, int line) {
  places_.add(path, line);
}

void Report::add(const std::string& path, const std::string& what) {
  if (mistakes_.size() >= kMaxMistakes) {
    ++num_left_out_;
    return;
  }
  mistakes_.push_back({places_.line_of(path), path, what});
  paths_.insert(path);
}

void Report::expected(
    const std::string& path,
    const std::string& got,
    const std::string& expected,
    const std::string& fix) {
  add(path, c10::str("got ", got, ", expected ", expected, ". Fix: ", fix));
}

void Report::open(
    const std::string& path,
    const JsonValue* object,
    bool is_home) {
  objects_[path].value = object;
  objects_[path].is_home = is_home;
}

void Report::make_known(const std::string& path, std::string_view key) {
  std::vector<std::string>& known = objects_[path].known;
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    known.emplace_back(key);
  }
}

void Report::throw_if_any() {
  refuse_unknown_keys();
  if (mistakes_.empty()) {
    return;
  }
  std::stable_sort(
      mistakes_.begin(),
      mistakes_.end(),
      [](const Mistake& a, const Mistake& b) { return a.line < b.line; });
  const size_t num_mistakes = mistakes_.size() + num_left_out_;
  std::string message;
  if (num_mistakes > 1) {
    message = c10::str(places_.origin(), ": ", num_mistakes, " mistakes\n");
  }
  for (const Mistake& mistake : mistakes_) {
    message += c10::str(
        places_.describe(mistake.path, mistake.line), ": ", mistake.what, "\n");
  }
  if (num_left_out_ > 0) {
    message += c10::str("... and ", num_left_out_, " more\n");
  }
  message.pop_back();
  throw ConfigError(message);
}

void Report::refuse_unknown_keys() {
  for (const auto& [section, object] : objects_) {
    if (object.value == nullptr) {
      continue;
    }
    std::set<std::string_view> seen(object.known.begin(), object.known.end());
    for (const std::string& key : object.value->keys) {
      if (seen.insert(key).second) {
        refuse_unknown_key(section, object, key);
      }
    }
  }
}

void Report::refuse_unknown_key(
    const std::string& section,
    const Object& object,
    const std::string& key) {
  const std::string path = join_path(section, key);
  if (mistakes_.size() >= kMaxMistakes) {
    add(path, {}); // is only counted, so that guessing is not worth its time
    return;
  }
  place(path, object.value->find(key)->line);
  const std::string elsewhere = home_of(key);
  if (!elsewhere.empty()) {
    add(path, c10::str("unknown key here. Fix: move it to ", elsewhere));
  } else if (const auto guess = nearest(key, object.known)) {
    add(path,
        c10::str(
            "unknown key, did you mean ",
            *guess,
            "? Fix: rename it to ",
            *guess,
            ", or remove it"));
  } else if (object.known.size() <= kMaxListedKeys) {
    add(path,
        c10::str(
            "unknown key, expected ",
            either(object.known),
            ". Fix: rename or remove it"));
  } else {
    add(path,
        "unknown key. Fix: remove it; docs/configuration.md lists what is "
        "known");
  }
}

// "the top level", "zero_optimization", or nothing. A name that several
// homes have, such as "params", tells nothing about where it belongs.
std::string Report::home_of(const std::string& key) const {
  std::string result;
  for (const auto& [section, object] : objects_) {
    const std::vector<std::string>& known = object.known;
    if (object.is_home &&
        std::find(known.begin(), known.end(), key) != known.end()) {
      if (!result.empty()) {
        return {};
      }
      result = section.empty() ? "the top level" : section;
    }
  }
  return result;
}

std::string join_path(const std::string& section, std::string_view key) {
  const std::string name = printable(key);
  return section.empty() ? name : section + "." + name;
}

} // namespace zero::config

// Defines Report: the mistakes of a configuration, collected while it is read
// and thrown as one error, so that nobody has to run a job once per mistake.
//
//   Report report("zero.json");
//   report.place("optimizer.params.lr", 7);
//   report.expected("optimizer.params.lr", "-1", "a number of at least 0");
//   report.throw_if_any();
//
// Paths are the keys from the root, joined by dots.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/json_value.h"
#include "config/places.h"

namespace zero::config {

class Report {
 public:
  // `origin` is how messages call the configuration.
  explicit Report(std::string origin) : places_(std::move(origin)) {}

  // Where a key stands. Later mistakes about it, or about what is missing
  // inside it, are shown with this line; without any place, with none.
  void place(const std::string& path, int line);

  // Of the keys that were given; kSetLine for those of the command line.
  const Places& places() const {
    return places_;
  }

  // `what` is the mistake, and ends with "Fix: ...".
  void add(const std::string& path, const std::string& what);
  void expected(
      const std::string& path,
      const std::string& got,
      const std::string& expected,
      const std::string& fix =
          "correct the value, or remove the key to have the default");

  // Whether this key has had a mistake: one is enough.
  bool is_about(const std::string& path) const {
    return paths_.count(path) != 0;
  }

  // An object whose keys are all to be made known; nullptr if it is not given.
  // It must live as long as the report. An unknown key elsewhere is told to
  // move here if this is a home: an object that libzero acts on.
  void open(const std::string& path, const JsonValue* object, bool is_home);
  void make_known(const std::string& path, std::string_view key);

  // Looks for unknown keys first.
  // Throws: ConfigError with all mistakes.
  void throw_if_any();

 private:
  struct Mistake {
    int line = 0;
    std::string path;
    std::string what;
  };
  struct Object {
    const JsonValue* value = nullptr;
    bool is_home = false;
    std::vector<std::string> known;
  };

  void refuse_unknown_keys();
  void refuse_unknown_key(
      const std::string& section,
      const Object& object,
      const std::string& key);
  std::string home_of(const std::string& key) const;

  Places places_;
  std::vector<Mistake> mistakes_;
  size_t num_left_out_ = 0;
  std::set<std::string> paths_; // of the mistakes
  std::map<std::string, Object> objects_; // by path
};

// "section.key", or "key" at the root.
std::string join_path(const std::string& section, std::string_view key);

} // namespace zero::config

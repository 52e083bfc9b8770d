// Defines Places: where the keys of a configuration stand, so that a mistake
// can be shown there, also one that is found later.
//
//   Places places("zero.json");
//   places.add("optimizer.params.lr", 7);
//   places.describe("optimizer.params.lr"); // "zero.json:7:
//   optimizer.params.lr"
#pragma once

#include <map>
#include <string>
#include <utility>

namespace zero::config {

class Places {
 public:
  Places() = default;
  // `origin` is how messages call the configuration.
  explicit Places(std::string origin) : origin_(std::move(origin)) {}

  void add(const std::string& path, int line);

  // What is missing has the line of the section it is missing in; 0 is none.
  int line_of(const std::string& path) const;

  bool has(const std::string& path) const {
    return lines_.contains(path);
  }
  const std::string& origin() const {
    return origin_;
  }

  // "zero.json:7: optimizer.params.lr".
  std::string describe(const std::string& path, int line) const;
  std::string describe(const std::string& path) const {
    return describe(path, line_of(path));
  }

  // "zero.json:7", "--set", "model.load", or "default" if it is not given.
  std::string source_of(const std::string& path) const;

 private:
  std::string origin_;
  std::map<std::string, int> lines_;
};

} // namespace zero::config

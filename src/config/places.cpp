#include "config/places.h"

#include <c10/util/StringUtil.h>

#include "config/settings.h"

namespace zero::config {

void Places::add(const std::string& path, int line) {
  lines_[path] = line;
}

int Places::line_of(const std::string& path) const {
  std::string prefix = path;
  while (true) {
    const auto found = lines_.find(prefix);
    if (found != lines_.end()) {
      return found->second;
    }
    if (prefix.empty()) {
      return 0;
    }
    const size_t end = prefix.find_last_of(".[");
    prefix.resize(end == std::string::npos ? 0 : end);
  }
}

std::string Places::describe(const std::string& path, int line) const {
  std::string result = origin_;
  if (line == kSetLine) {
    result += " with --set";
  } else if (line > 0) {
    result += c10::str(":", line);
  }
  return path.empty() ? result : result + ": " + path;
}

std::string Places::source_of(const std::string& path) const {
  const auto found = lines_.find(path);
  if (found == lines_.end()) {
    return "default";
  }
  switch (found->second) {
    case kSetLine:
      return "--set";
    case kLoadedLine:
      return "model.load";
    default:
      return c10::str(origin_, ":", found->second);
  }
}

} // namespace zero::config

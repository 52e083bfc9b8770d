// Defines MetricsFile: metrics.jsonl, one JSON object a line.
//
//   MetricsFile metrics("runs/first/metrics.jsonl");
//   metrics.add(R"({"step":1,"loss":4.2})");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace zero::report {

class MetricsFile {
 public:
  // Lines are added to what the file has. Throws: IoError.
  explicit MetricsFile(std::string path);

  // Removes the lines of later steps, and what is no whole line.
  static void cut_after(const std::string& path, int64_t step);

  // Throws: IoError if there is no room; the file then ends with the line
  // before.
  void add(std::string_view line);

 private:
  [[noreturn]] void fail(const char* call, int error) const;

  std::string path_;
  base::UniqueFd file_;
  int64_t bytes_ = 0; // in whole lines
};

} // namespace zero::report

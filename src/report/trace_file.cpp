#include "report/trace_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/file_io.h"

namespace zero::report {

namespace {

std::string trace_name(
    const char* what,
    size_t rank,
    int thread,
    const std::string& name) {
  return c10::str(
      R"({"ph":"M","name":")",
      what,
      R"(","pid":)",
      rank,
      R"(,"tid":)",
      thread,
      R"(,"args":{"name":")",
      name,
      R"("}})");
}

std::string trace_event(
    const base::KeptSpan& span,
    size_t rank,
    int64_t origin) {
  std::array<char, 160> text{};
  std::snprintf(
      text.data(),
      text.size(),
      R"({"ph":"X","name":"%s","pid":%zu,"tid":%d,"ts":%.3f,"dur":%.3f})",
      base::name_of(span.activity),
      rank,
      span.thread,
      1e-3 * static_cast<double>(span.begin - origin),
      1e-3 * static_cast<double>(span.end - span.begin));
  return text.data();
}

} // namespace

void write_trace(
    const std::vector<std::vector<base::KeptSpan>>& ranks,
    const std::string& path) {
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const auto& spans : ranks) {
    for (const auto& span : spans) {
      origin = std::min(origin, span.begin);
    }
  }
  base::NewFile file(path);
  file.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  const char* separator = "";
  const auto put = [&](const std::string& line) {
    file.write(separator + line);
    separator = ",\n";
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    put(trace_name("process_name", rank, 0, c10::str("rank ", rank)));
    std::set<int> threads;
    for (const auto& span : ranks[rank]) {
      if (threads.insert(span.thread).second) {
        put(trace_name(
            "thread_name",
            rank,
            span.thread,
            span.thread == 0 ? "training" : c10::str("thread ", span.thread)));
      }
      put(trace_event(span, rank, origin));
    }
  }
  file.write("\n]}\n");
  file.commit();
}

} // namespace zero::report

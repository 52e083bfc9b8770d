#include "report/trace_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launch/job.h"

namespace zero::report {
namespace {

using base::Activity;

TEST(TraceFile, EveryRankIsAProcessWithItsSpans) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "trace.json";
  write_trace(
      {{{Activity::forward, 0, 5'000'000, 7'000'000},
        {Activity::gather, 1, 6'000'000, 6'500'000}},
       {{Activity::wait, 0, 4'000'000, 9'000'000}}},
      path);
  const auto trace = nlohmann::json::parse(test::read_file(path));
  std::vector<nlohmann::json> spans;
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      spans.push_back(event);
    } else {
      names.push_back(event["args"]["name"]);
    }
  }
  ASSERT_EQ(spans.size(), 3);
  EXPECT_EQ(spans[0]["name"], "forward");
  EXPECT_EQ(spans[0]["ts"], 1000.0); // microseconds after the first of all
  EXPECT_EQ(spans[0]["dur"], 2000.0);
  EXPECT_EQ(spans[1]["tid"], 1);
  EXPECT_EQ(spans[2]["pid"], 1);
  EXPECT_EQ(spans[2]["ts"], 0.0);
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "rank 0", "training", "thread 1", "rank 1", "training"}));
}

TEST(TraceFile, ARunWithoutSpansIsATraceToo) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "trace.json";
  write_trace({{}}, path);
  EXPECT_EQ(
      nlohmann::json::parse(test::read_file(path))["traceEvents"].size(), 1);
}

} // namespace
} // namespace zero::report

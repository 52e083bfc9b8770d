// `zero bench collectives` prints what scripts read.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

namespace zero::cli {
namespace {

std::string output_of(const std::string& arguments, int* status) {
  const std::string command =
      std::string(std::getenv("ZERO_PROGRAM")) + " " + arguments;
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  size_t bytes = 0;
  while ((bytes = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    output.append(buffer.data(), bytes);
  }
  *status = ::pclose(pipe);
  return output;
}

void expect_rows(const std::string& options, const std::string& backend) {
  int status = -1;
  const std::string output = output_of(
      "bench collectives --json --seconds 0.05 --bytes 8,300000 " + options,
      &status);
  EXPECT_EQ(status, 0) << output;
  std::istringstream lines(output);
  std::string line;
  std::set<std::string> operations;
  int num_rows = 0;
  while (std::getline(lines, line)) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.size(), 6U) << line;
    EXPECT_EQ(row.at("backend"), backend);
    EXPECT_EQ(row.at("ranks"), 2);
    EXPECT_TRUE(row.at("bytes") == 8 || row.at("bytes") == 300000);
    const double seconds = row.at("seconds");
    EXPECT_GT(seconds, 0);
    EXPECT_DOUBLE_EQ(
        row.at("gigabytes_per_second").get<double>(),
        row.at("bytes").get<double>() / seconds / 1e9);
    operations.insert(row.at("op"));
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 14) << output;
  for (const char* op :
       {"memcpy",
        "all_reduce",
        "reduce_scatter",
        "all_gather",
        "broadcast",
        "all_to_all",
        "barrier"}) {
    EXPECT_TRUE(operations.contains(op)) << op;
  }
}

TEST(BenchCollectives, PrintsARowForEachOperationAndSize) {
  expect_rows("-n 2", "shm");
}

TEST(BenchCollectives, MeasuresTensorsOutsideWindowsToo) {
  expect_rows("-n 2 --ordinary-memory", "shm");
}

TEST(BenchCollectives, MeasuresThreads) {
  expect_rows("-n 2 --backend local", "local");
}

} // namespace
} // namespace zero::cli

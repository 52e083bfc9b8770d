// Defines RankOutput: turns what one rank writes into labelled lines of the
// job's output, and remembers the last ones for the report of its failure.
//
//   RankOutput output(writer, rank_label(rank, size, colour), ...);
//   output.take(Stream::out, bytes);
//
// Single-threaded.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "launch/line_splitter.h"
#include "launch/output_writer.h"

namespace zero::launch {

// "[3] ", or "[ 3] " among more than 10 ranks, so that lines stay aligned.
std::string rank_label(int rank, int num_ranks, bool colour);

// Whether a stream shows colours: a terminal, and NO_COLOR is not set.
bool wants_colour(int fd);

class RankOutput {
 public:
  static constexpr size_t kLastLines = 20;
  // A remembered line is cut to this, as a report is read by people.
  static constexpr size_t kLastLineBytes = 2000;

  // The labels go before every line of standard output and standard error.
  RankOutput(
      OutputWriter& writer,
      std::string out_label,
      std::string err_label);
  ~RankOutput() = default;
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  void take(Stream stream, std::string_view bytes);

  // Passes on lines that have no end.
  void finish();

  // The last lines of both streams, oldest first.
  const std::deque<std::string>& last_lines() const {
    return last_lines_;
  }

 private:
  void pass_on(Stream stream, const std::string& label, std::string_view line);

  OutputWriter& writer_;
  LineSplitter out_;
  LineSplitter err_;
  std::deque<std::string> last_lines_;
};

} // namespace zero::launch

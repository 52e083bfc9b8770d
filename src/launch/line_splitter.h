// Defines LineSplitter: makes lines of the bytes one rank writes, so that they
// can be passed on whole.
//
//   LineSplitter splitter([](std::string_view line) { ... });
//   splitter.feed("half a li", now);
//   splitter.feed("ne\nand more", now);   // gives "half a line"
//   splitter.finish();                    // gives "and more"
//
// Note [Progress bars]
// A program that draws a progress bar writes its states separated by '\r'. As
// lines of a log they would be a flood, so of the states only one per second
// is given, and the last one, when the line ends.
//
// Single-threaded.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace zero::launch {

class LineSplitter {
 public:
  // A longer line is given in pieces of this size.
  static constexpr size_t kMaxLineBytes = 1 << 20;

  // `take` gets each line, without its end.
  explicit LineSplitter(std::function<void(std::string_view)> take);

  void feed(std::string_view bytes, base::TimePoint now);

  // Gives what is left of a line that has no end.
  void finish();

 private:
  void append(std::string_view text);
  void carriage_return(base::TimePoint now);
  void end_line();

  std::function<void(std::string_view)> take_;
  std::string line_; // as a terminal would show it
  bool returned_ = false; // the next character overwrites the line
  bool given_ = false; // the line as it stands was given, as a progress state
  base::TimePoint last_progress_; // when one was given
};

} // namespace zero::launch

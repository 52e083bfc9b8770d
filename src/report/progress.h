// Defines Progress: what a person sees while a run goes on. Lines stay; below
// them, on a terminal, a bar moves.
//
//   Progress progress(/*terminal_fd=*/-1);
//   progress.line("step 10  loss 3.2");
//   progress.bar(10, 2000, 12.5);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace zero::report {

class Progress {
 public:
  // Of a terminal, or -1: lines go to standard output then, without colours,
  // and there is no bar.
  // `unit` is what the bar counts.
  explicit Progress(int terminal_fd, std::string unit = "step");
  ~Progress(); // takes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void line(std::string_view text);

  // `seconds` have passed since the first step.
  void bar(int64_t step, int64_t num_steps, double seconds);

  // A word that stands out, on a terminal.
  std::string strong(std::string_view text) const;
  std::string faint(std::string_view text) const;

 private:
  void write(std::string_view text) const;

  int terminal_;
  std::string unit_;
  bool has_colours_;
  std::string bar_; // as it is drawn
  base::TimePoint drawn_;
};

// "[######----]  40 %  step 4/10  1:02 left"
std::string bar_text(
    int64_t step,
    int64_t num_steps,
    double seconds,
    int64_t columns,
    std::string_view unit = "step");

} // namespace zero::report

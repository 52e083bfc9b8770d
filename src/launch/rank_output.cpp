#include "launch/rank_output.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/clock.h"
#include "base/error.h"

namespace zero::launch {

std::string rank_label(int rank, int num_ranks, bool colour) {
  std::string number = std::to_string(rank);
  const size_t width = std::to_string(num_ranks - 1).size();
  number.insert(0, width - number.size(), ' ');
  if (!colour) {
    return c10::str("[", number, "] ");
  }
  // Cyan, green, yellow, magenta, blue; red is for errors.
  constexpr std::array kColours{36, 32, 33, 35, 34};
  const int code = kColours[static_cast<size_t>(rank) % kColours.size()];
  return c10::str("\033[", code, "m[", number, "]\033[0m ");
}

bool wants_colour(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(fd) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

RankOutput::RankOutput(
    OutputWriter& writer,
    std::string out_label,
    std::string err_label)
    : writer_(writer),
      out_([this, label = std::move(out_label)](std::string_view line) {
        pass_on(Stream::out, label, line);
      }),
      err_([this, label = std::move(err_label)](std::string_view line) {
        pass_on(Stream::err, label, line);
      }) {}

void RankOutput::take(Stream stream, std::string_view bytes) {
  auto& splitter = stream == Stream::out ? out_ : err_;
  splitter.feed(bytes, base::Clock::now());
}

void RankOutput::finish() {
  out_.finish();
  err_.finish();
}

void RankOutput::pass_on(
    Stream stream,
    const std::string& label,
    std::string_view line) {
  std::string text;
  text.reserve(label.size() + line.size() + 1);
  text.append(label).append(line).append("\n");
  writer_.put(stream, std::move(text));

  if (line.size() > kLastLineBytes) {
    last_lines_.push_back(c10::str(line.substr(0, kLastLineBytes), "..."));
  } else {
    last_lines_.emplace_back(line);
  }
  if (last_lines_.size() > kLastLines) {
    last_lines_.pop_front();
  }
}

} // namespace zero::launch

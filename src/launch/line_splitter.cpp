#include "launch/line_splitter.h"

#include <algorithm>
#include <utility>

namespace zero::launch {

namespace {
constexpr std::chrono::seconds kProgressInterval(1);
}

LineSplitter::LineSplitter(std::function<void(std::string_view)> take)
    : take_(std::move(take)) {}

void LineSplitter::feed(std::string_view bytes, base::TimePoint now) {
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of("\n\r");
    append(bytes.substr(0, end));
    if (end == std::string_view::npos) {
      return;
    }
    if (bytes[end] == '\n') {
      end_line();
    } else {
      carriage_return(now);
    }
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::append(std::string_view text) {
  if (text.empty()) {
    return;
  }
  if (returned_) {
    line_.clear();
    returned_ = false;
  }
  given_ = false;
  while (!text.empty()) {
    const size_t room = kMaxLineBytes - line_.size();
    line_ += text.substr(0, room);
    text.remove_prefix(std::min(room, text.size()));
    if (line_.size() == kMaxLineBytes && !text.empty()) {
      take_(line_);
      line_.clear();
    }
  }
}

void LineSplitter::carriage_return(base::TimePoint now) {
  // The '\r' of an empty line, or a second one in a row, changes nothing.
  if (!line_.empty() && !returned_ && !given_ &&
      now - last_progress_ >= kProgressInterval) {
    take_(line_);
    given_ = true;
    last_progress_ = now;
  }
  returned_ = true;
}

void LineSplitter::end_line() {
  if (!given_) {
    take_(line_);
  }
  line_.clear();
  returned_ = false;
  given_ = false;
}

void LineSplitter::finish() {
  if (!line_.empty()) {
    end_line();
  }
}

} // namespace zero::launch

// Defines Span: where the time of this process goes. Every thread says what it
// does; seconds are added up by activity, and kept one by one for a trace if
// somebody asks.
//
//   const Span span(Activity::backward);
//   loss.backward();
//
// A span within another one is not counted twice: its seconds are its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace zero::base {

enum class Activity : uint8_t {
  step, // an update and all that leads to it; the others are within it
  forward,
  backward,
  update,
  evaluate,
  save,
  load, // waiting for the next batch
  reduce, // means of gradients
  gather, // parameters on their way to this rank
  wait, // for other ranks
};
constexpr size_t kNumActivities = 10;
const char* name_of(Activity activity);

class Span {
 public:
  explicit Span(Activity activity);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Activity activity_;
  TimePoint begin_;
  Span* outer_; // of this thread
  int64_t inner_nanoseconds_ = 0;
};

// Of all threads since the process began, without spans that have not ended.
using ActivitySeconds = std::array<double, kNumActivities>;
ActivitySeconds activity_seconds();
inline double seconds_of(const ActivitySeconds& seconds, Activity activity) {
  return seconds[static_cast<size_t>(activity)];
}

struct KeptSpan {
  Activity activity = Activity::forward;
  int thread = 0; // by the order in which threads had their first span
  int64_t begin = 0; // nanoseconds of the monotonic clock, alike on all ranks
  int64_t end = 0;
};

// From now on; more than so many are counted, but not kept.
void keep_spans(size_t limit);
std::vector<KeptSpan> kept_spans();

} // namespace zero::base

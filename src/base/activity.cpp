#include "base/activity.h"

#include <atomic>
#include <mutex>

namespace zero::base {

namespace {

struct Kept {
  std::mutex mutex;
  size_t limit = 0;
  std::vector<KeptSpan> spans;
};

Kept& kept() {
  // Never destroyed: threads may end after main().
  static auto* instance = new Kept;
  return *instance;
}

std::array<std::atomic<int64_t>, kNumActivities> totals; // nanoseconds
std::atomic<bool> is_keeping = false;
std::atomic<int> num_threads = 0;
thread_local Span* innermost = nullptr;
thread_local int thread_number = -1;

int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

void keep(Activity activity, TimePoint begin, TimePoint end) {
  if (thread_number < 0) {
    thread_number = num_threads++;
  }
  const std::lock_guard lock(kept().mutex);
  if (kept().spans.size() < kept().limit) {
    kept().spans.push_back(
        {activity,
         thread_number,
         nanoseconds(begin.time_since_epoch()),
         nanoseconds(end.time_since_epoch())});
  }
}

} // namespace

const char* name_of(Activity activity) {
  constexpr std::array<const char*, kNumActivities> kNames{
      "step",
      "forward",
      "backward",
      "update",
      "evaluate",
      "save",
      "load",
      "reduce",
      "gather",
      "wait"};
  return kNames[static_cast<size_t>(activity)];
}

Span::Span(Activity activity)
    : activity_(activity), begin_(Clock::now()), outer_(innermost) {
  innermost = this;
}

Span::~Span() {
  const TimePoint end = Clock::now();
  const int64_t spent = nanoseconds(end - begin_);
  totals[static_cast<size_t>(activity_)] += spent - inner_nanoseconds_;
  if (outer_ != nullptr) {
    outer_->inner_nanoseconds_ += spent;
  }
  innermost = outer_;
  if (is_keeping.load(std::memory_order_relaxed)) {
    keep(activity_, begin_, end);
  }
}

ActivitySeconds activity_seconds() {
  ActivitySeconds seconds{};
  for (size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] = 1e-9 * static_cast<double>(totals[i].load());
  }
  return seconds;
}

void keep_spans(size_t limit) {
  const std::lock_guard lock(kept().mutex);
  kept().limit = limit;
  is_keeping = true;
}

std::vector<KeptSpan> kept_spans() {
  const std::lock_guard lock(kept().mutex);
  return kept().spans;
}

} // namespace zero::base

#include "base/activity.h"

#include <gtest/gtest.h>

#include <thread>

namespace zero::base {
namespace {

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

TEST(Activity, SecondsOfASpanWithinAnotherAreItsOwn) {
  const auto before = activity_seconds();
  {
    const Span outer(Activity::backward);
    sleep_for(0.02);
    {
      const Span inner(Activity::wait);
      sleep_for(0.2);
    }
  }
  const auto after = activity_seconds();
  const auto spent = [&](Activity activity) {
    return seconds_of(after, activity) - seconds_of(before, activity);
  };
  EXPECT_GE(spent(Activity::wait), 0.2);
  EXPECT_GE(spent(Activity::backward), 0.02);
  // Its whole length would be at least 0.22.
  EXPECT_LT(spent(Activity::backward), spent(Activity::wait) + 0.02);
  EXPECT_EQ(spent(Activity::update), 0);
}

TEST(Activity, SpansAreKeptOnceSomebodyAsks) {
  {
    const Span span(Activity::update); // nobody has asked
  }
  EXPECT_TRUE(kept_spans().empty());
  keep_spans(3);
  std::thread([] { const Span span(Activity::gather); }).join();
  for (int i = 0; i < 5; ++i) {
    const Span span(Activity::reduce);
  }
  const auto spans = kept_spans();
  ASSERT_EQ(spans.size(), 3);
  EXPECT_EQ(spans[0].activity, Activity::gather);
  EXPECT_EQ(spans[1].activity, Activity::reduce);
  EXPECT_NE(spans[0].thread, spans[1].thread);
  EXPECT_LE(spans[1].begin, spans[1].end);
  EXPECT_LE(spans[1].end, spans[2].begin);
  EXPECT_STREQ(name_of(spans[2].activity), "reduce");
}

} // namespace
} // namespace zero::base

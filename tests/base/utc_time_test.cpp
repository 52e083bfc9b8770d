#include "base/utc_time.h"

#include <gtest/gtest.h>

namespace zero::base {
namespace {

TEST(UtcTime, IsTheSameEverywhereAndSortsAsText) {
  EXPECT_EQ(in_utc(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(in_utc(1'794'970'805), "2026-11-18T03:00:05Z");
  const std::time_t before = std::time(nullptr);
  const std::string now = now_in_utc();
  EXPECT_GE(now, in_utc(before));
  EXPECT_LE(now, in_utc(std::time(nullptr)));
}

} // namespace
} // namespace zero::base

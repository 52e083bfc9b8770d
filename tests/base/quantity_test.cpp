#include "base/quantity.h"

#include <gtest/gtest.h>

namespace zero::base {
namespace {

TEST(Quantity, NumbersAreGroupedByThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
}

TEST(Quantity, ThreeDigitsAndAUnit) {
  EXPECT_EQ(in_short(0), "0");
  EXPECT_EQ(in_short(7), "7");
  EXPECT_EQ(in_short(7.126), "7.13");
  EXPECT_EQ(in_short(999.4), "999");
  EXPECT_EQ(in_short(999.6), "1.00 k");
  EXPECT_EQ(in_short(12345), "12.3 k");
  EXPECT_EQ(in_short(8.1e5), "810 k");
  EXPECT_EQ(in_short(2.5e9), "2.50 G");
  EXPECT_EQ(in_bytes(12), "12 B");
  EXPECT_EQ(in_bytes(1619712), "1.62 MB");
}

TEST(Quantity, TimeIsReadAsAClockShowsIt) {
  EXPECT_EQ(in_time(0.25), "0.2 s");
  EXPECT_EQ(in_time(45.4), "45 s");
  EXPECT_EQ(in_time(187), "3:07");
  EXPECT_EQ(in_time(3787), "1:03:07");
}

TEST(Quantity, ZerosFillUpToTheDigitsAndNothingIsCutOff) {
  EXPECT_EQ(zero_padded(0, 3), "000");
  EXPECT_EQ(zero_padded(42, 5), "00042");
  EXPECT_EQ(zero_padded(12345, 5), "12345");
  EXPECT_EQ(zero_padded(123456, 5), "123456");
}

} // namespace
} // namespace zero::base

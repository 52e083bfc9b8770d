// Percentages are read and written without loss.
#include "config/percentage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace zero::config {
namespace {

TEST(Percentage, IsTheShareThatItSays) {
  EXPECT_EQ(parse_percentage("25%"), 0.25);
  EXPECT_EQ(parse_percentage("7%"), 0.07); // 7 / 100 rounds the same way
  EXPECT_EQ(parse_percentage("12.5%"), 0.125);
  EXPECT_EQ(parse_percentage("100%"), 1.0);
  EXPECT_EQ(parse_percentage("0%"), 0.0);
}

TEST(Percentage, AnythingElseIsNone) {
  for (const char* text :
       {"",
        "%",
        "25",
        "25 %",
        "-5%",
        "+5%",
        "1e1%",
        "1.2.3%",
        ".%",
        "abc%",
        "25%%",
        "nan%",
        "inf%",
        "0x10%"}) {
    EXPECT_EQ(parse_percentage(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_percentage(std::string(500, '9') + "%"), std::nullopt);
}

TEST(Percentage, IsWrittenAsPeopleWriteIt) {
  EXPECT_EQ(to_percentage(0.25), "25%");
  EXPECT_EQ(to_percentage(0.07), "7%");
  EXPECT_EQ(to_percentage(0.333), "33.3%");
  EXPECT_EQ(to_percentage(0.001), "0.1%");
  EXPECT_EQ(to_percentage(1), "100%");
  EXPECT_EQ(to_percentage(0), "0%");
}

TEST(Percentage, ReadsBackAsTheSameNumber) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> shares(0, 1);
  for (int i = 0; i < 10'000; ++i) {
    const double share = std::ldexp(shares(random), -(i % 60));
    ASSERT_EQ(parse_percentage(to_percentage(share)), share);
  }
  ASSERT_EQ(parse_percentage(to_percentage(1e-300)), 1e-300);
}

} // namespace
} // namespace zero::config

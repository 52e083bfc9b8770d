#include "report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error_of.h"

namespace zero::report {
namespace {

using test::has;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

std::vector<Point> ramp(size_t size) {
  std::vector<Point> points;
  for (size_t i = 0; i < size; ++i) {
    const auto x = static_cast<double>(i);
    points.push_back({.x = x, .y = x});
  }
  return points;
}

Chart chart_of(std::vector<Point> points) {
  Chart chart{.id = "loss", .title = "Loss", .about = "Lower is better."};
  chart.series.push_back({.name = "training", .points = std::move(points)});
  return chart;
}

// What is between two texts, the first time.
std::string between(
    const std::string& text,
    const std::string& begin,
    const std::string& end) {
  const size_t at = text.find(begin);
  return at == std::string::npos
      ? "nothing"
      : text.substr(
            at + begin.size(),
            text.find(end, at + begin.size()) - at - begin.size());
}

TEST(Thin, KeepsPeaksAndGapsAndEnds) {
  auto points = ramp(100'000);
  points[12'345].y = 1e9;
  points[54'321].y = -1e9;
  points[77'777].y = kGap;
  const auto kept = thin(points, 200);
  EXPECT_LE(kept.size(), 3 * 200 + 2);
  const auto has_point = [&](size_t i) {
    return std::ranges::count(kept, points[i].x, &Point::x) == 1;
  };
  for (const size_t i : {0, 12'345, 54'321, 77'777, 99'999}) {
    EXPECT_TRUE(has_point(i)) << i;
  }
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::x));
}

TEST(Thin, LeavesAShortSeriesAlone) {
  EXPECT_EQ(thin(ramp(400), 200).size(), 400);
  EXPECT_TRUE(thin({}, 200).empty());
}

TEST(Thin, KeepsTheOnlyValueAmongGaps) {
  std::vector<Point> points(1000, {.x = 0, .y = kGap});
  points[501].y = 3;
  const auto kept = thin(points, 10);
  EXPECT_EQ(std::ranges::count(kept, 3, &Point::y), 1);
}

TEST(RoundMarks, AreRoundAndEncloseAllValues) {
  const std::vector<double> expected{0, 2, 4, 6, 8, 10};
  EXPECT_EQ(round_marks(0.3, 9.1, 5), expected);
  EXPECT_FALSE(std::signbit(round_marks(-0.0, 1, 5).front()));
  for (const double low : {-7.3, 0.0, 1e-9, 12345.6}) {
    for (const double range : {1e-3, 0.7, 3.0, 1e15}) {
      const auto marks = round_marks(low, low + range, 5);
      ASSERT_LE(marks.size(), 9);
      EXPECT_LE(marks.front(), low + 1e-6 * range);
      EXPECT_GE(marks.back(), low + range - 1e-6 * range);
    }
  }
  EXPECT_EQ(round_marks(3, 3, 5), std::vector<double>{3});
  // Where a double has no digits for numbers between.
  EXPECT_EQ(round_marks(3e18, 3e18 + 512, 5), std::vector<double>{3e18});
}

TEST(Show, NumbersAreShort) {
  EXPECT_EQ(show(1234567, Unit::number), "1,234,567");
  EXPECT_EQ(show(-1234, Unit::number), "-1,234");
  EXPECT_EQ(show(999.96, Unit::number), "1000");
  EXPECT_EQ(show(0.00025, Unit::number), "0.00025");
  EXPECT_EQ(show(1.23456, Unit::number), "1.235");
  EXPECT_EQ(show(0, Unit::bytes), "0 B");
  EXPECT_EQ(show(1536, Unit::bytes), "1.5 KiB");
  EXPECT_EQ(show(3.2 * (1 << 30), Unit::bytes), "3.2 GiB");
  EXPECT_EQ(show(0.7149, Unit::share), "71.5 %");
  EXPECT_EQ(show(0.05, Unit::seconds), "50 ms");
  EXPECT_EQ(show(90, Unit::seconds), "90 s");
  EXPECT_EQ(show(180, Unit::seconds), "3 min");
  EXPECT_EQ(show(kGap, Unit::bytes), "not finite");
}

TEST(Escape, NothingIsMarkup) {
  EXPECT_EQ(
      escape("<a b=\"c\" d='e'>&"),
      "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
  EXPECT_EQ(escape(std::string("a\0b\x1b\n\tä", 8)), "a\uFFFDb\uFFFD\n\tä");
}

TEST(Chart, HasANameForThoseWhoDoNotSeeIt) {
  const std::string html = draw(chart_of({{1, 4}, {2, 2}, {3, 3}}));
  EXPECT_TRUE(has(html, "role='img' aria-labelledby='loss-title loss-desc'"));
  EXPECT_EQ(between(html, "<title id='loss-title'>", "<"), "Loss");
  EXPECT_EQ(
      between(html, "<desc id='loss-desc'>", "<"),
      "Lower is better. training: from 2 to 4, last 3.");
}

TEST(Chart, OfNothingIsNothing) {
  EXPECT_EQ(draw(Chart{.id = "a", .title = "A"}), "");
  EXPECT_EQ(draw(chart_of({{1, kGap}})), "");
  Chart areas = chart_of({});
  areas.kind = Chart::Kind::areas;
  EXPECT_EQ(draw(areas), "");
}

TEST(Chart, EveryNameIsEscaped) {
  Chart chart = chart_of({{1, 1}});
  chart.id = chart.title = chart.about = chart.x_name = "'<script>";
  chart.series[0].name = "'<script>";
  chart.series.push_back(chart.series[0]);
  for (const auto kind :
       {Chart::Kind::lines, Chart::Kind::areas, Chart::Kind::bars}) {
    chart.kind = kind;
    const std::string html = draw(chart);
    EXPECT_FALSE(has(html, "<script>"));
    EXPECT_FALSE(has(html, "'&#39;'"));
    EXPECT_FALSE(has(html, "''<"));
  }
}

TEST(Chart, AGapBreaksTheLine) {
  const std::string html =
      draw(chart_of({{1, 4}, {2, 2}, {3, kGap}, {4, 3}, {5, 1}}));
  const std::string line = between(html, "data-name='training' d='", "'");
  EXPECT_EQ(count(line, "M"), 2) << line;
  EXPECT_EQ(count(line, "L"), 2) << line;
  EXPECT_EQ(count(html, "<circle"), 0);
  // Between gaps there is no line, so that the value would not be seen.
  EXPECT_EQ(count(draw(chart_of({{1, 4}, {2, kGap}, {3, 5}})), "<circle"), 2);
}

TEST(Chart, AxesAreHonest) {
  Chart chart = chart_of({{1, 90}, {2, 95}});
  EXPECT_TRUE(has(draw(chart), "data-y='90 95 216 12'"));
  chart.from_zero = true;
  EXPECT_TRUE(has(draw(chart), "data-y='0 100 216 12'"));
  chart.unit = Unit::bytes;
  chart.series[0].points = {{1, 3 << 20}, {2, 5 << 20}};
  EXPECT_TRUE(has(draw(chart), ">5 MiB</text>"));
}

TEST(Chart, AlmostEqualValuesAndVeryLargeOnesHaveAPlace) {
  for (const double value : {0.0, -3.0, 1e-30, 3e38}) {
    for (const double x : {0.0, 7.0, 9e18}) {
      const std::string html = draw(chart_of({{x, value}, {x, value}}));
      EXPECT_FALSE(has(html, "nan") || has(html, "inf")) << x << " " << value;
    }
  }
}

TEST(Chart, ALogScaleIsSaidAndLeavesOutZero) {
  Chart chart = chart_of({{1, 1}, {2, 0}, {3, 1000}});
  EXPECT_FALSE(has(draw(chart), "log scale"));
  chart.log_scale = LogScale::if_wide; // with a zero it cannot be
  EXPECT_FALSE(has(draw(chart), "log scale"));
  chart.log_scale = LogScale::always;
  const std::string html = draw(chart);
  EXPECT_TRUE(has(html, "log scale"));
  EXPECT_FALSE(has(html, "inf") || has(html, "nan"));
  for (const char* mark : {">1<", ">10<", ">100<", ">1,000<"}) {
    EXPECT_TRUE(has(html, mark)) << mark;
  }
  chart.log_scale = LogScale::if_wide;
  chart.series[0].points[1].y = 49;
  EXPECT_TRUE(has(draw(chart), "log scale"));
  chart.series[0].points[2].y = 50;
  EXPECT_FALSE(has(draw(chart), "log scale"));
}

TEST(Chart, AreasAddUp) {
  Chart chart = chart_of({{1, 30}, {2, 30}});
  chart.kind = Chart::Kind::areas;
  chart.series.push_back({.name = "more", .points = {{1, 40}, {2, kGap}}});
  const std::string html = draw(chart);
  EXPECT_TRUE(has(html, "data-y='0 80 216 12'"));
  // 204 for 80: 70 is at 37.5, 30 at 139.5; back along the lower one.
  EXPECT_EQ(
      between(html, "data-name='more' d='", "'"),
      "M66.00 37.50L456.00 139.50L456.00 139.50L66.00 139.50Z");
}

TEST(Chart, HasABarOfEachSeriesForEveryRank) {
  Chart chart = chart_of({{0, 1.5}, {1, 2}});
  chart.kind = Chart::Kind::bars;
  chart.unit = Unit::seconds;
  chart.series.push_back({.name = "other", .points = {{0, 1}}, .style = 1});
  const std::string html = draw(chart);
  EXPECT_EQ(count(html, "<title>"), 3);
  EXPECT_TRUE(has(html, "<title>1.5 s</title>"));
  EXPECT_TRUE(has(html, "<ul class='legend'>"));
}

TEST(Chart, LinesDifferInMoreThanColour) {
  Chart chart = chart_of({{1, 1}, {2, 2}});
  chart.series.push_back(
      {.name = "other", .points = {{1, 2}, {2, 3}}, .style = 1});
  const std::string html = draw(chart);
  EXPECT_EQ(count(html, "stroke-dasharray=''"), 2); // in the legend too
  EXPECT_EQ(count(html, "stroke-dasharray='7 3'"), 2);
}

TEST(Chart, ALongSeriesStaysASmallPicture) {
  Chart chart = chart_of(ramp(1'000'000));
  EXPECT_LT(draw(chart).size(), 30'000);
  chart.kind = Chart::Kind::areas;
  EXPECT_LT(draw(chart).size(), 30'000);
}

TEST(Chart, TheTableHasSomeOfTheNumbersAndTheLast) {
  const std::string html = draw(chart_of(ramp(5000)));
  EXPECT_EQ(count(html, "<tr><th scope='row'>"), 20);
  EXPECT_TRUE(has(html, "<th scope='row'>4,999</th><td>4,999</td>"));
}

} // namespace
} // namespace zero::report

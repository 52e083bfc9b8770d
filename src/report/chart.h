// Defines Chart: a chart as a piece of HTML, with the picture as SVG within it,
// a legend, and the numbers as a table.
//
//   Chart chart{.id = "loss", .title = "Loss", .x_name = "update"};
//   chart.series.push_back({.name = "training", .points = {{1, 4.2}, {2, 4}}});
//   page += draw(chart);
//
// The page around it gives the colours (--c0, --c1, ... and --ink, --grid) and
// the looks of the classes, so that light and dark need no second picture.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace zero::report {

struct Point {
  double x = 0;
  double y = 0; // what is not finite is a gap
};

struct Series {
  std::string name;
  std::vector<Point> points = {}; // by x
  size_t style = 0; // which colour, and which dashes
  bool faint = false; // behind the others, as what a smooth line came of
  bool dots = false; // points that have nothing between them
};

enum class Unit { number, bytes, share, seconds };

enum class LogScale {
  never,
  if_wide, // if the highest value is more than 50 times the lowest
  always, // values of zero or less are left out
};

struct Chart {
  enum class Kind {
    lines,
    areas, // one upon another; all series have the same x
    bars, // for every x a bar of each series
  };

  std::string id; // of the page, once
  std::string title;
  std::string about = {}; // a sentence that says what is to be seen
  std::string x_name = "update";
  Kind kind = Kind::lines;
  Unit unit = Unit::number;
  bool from_zero = false; // areas and bars always are
  LogScale log_scale = LogScale::never;
  std::vector<Series> series = {};
  std::vector<double> marks = {}; // where something happened, on the scale of x
};

// Nothing, if there is no finite value.
std::string draw(const Chart& chart);

// The lowest and the highest point of each of `columns` columns, so that no
// peak is lost, and the first and last of all. Gaps stay gaps.
std::vector<Point> thin(const std::vector<Point>& points, size_t columns);

// Round numbers that a scale is marked with, from one that is not above `low`
// to one that is not below `high`.
std::vector<double> round_marks(double low, double high, size_t about);

// "1,234", "0.00025", "3.2 GiB", "71 %", "50 ms"
std::string show(double value, Unit unit);

// Text as it can stand in HTML, also within quotes.
std::string escape(std::string_view text);

} // namespace zero::report

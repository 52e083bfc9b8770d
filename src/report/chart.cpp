#include "report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

namespace zero::report {

namespace {

// Within a picture of 480 by 260, which the page stretches.
constexpr double kLeft = 66;
constexpr double kRight = 456;
constexpr double kTop = 12;
constexpr double kBottom = 216;

constexpr size_t kColumns = 200; // that a long series is thinned to
constexpr size_t kTableRows = 20;
constexpr double kWide = 50; // for LogScale::if_wide
constexpr size_t kColours = 7;
// As many as have no common divisor with the colours: 35 styles in all.
constexpr std::array kDashes = {"", "7 3", "2 3", "9 3 2 3", "4 2"};

// As it is, a place in the picture.
std::string digits(double value, const char* form = "%.2f") {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

// Enough that the digits of a double suffice to count from one to the other.
bool differ(double low, double high) {
  return high - low > 1e-9 * std::max(std::abs(low), std::abs(high));
}

struct Scaled {
  double divisor;
  const char* name;
};

// The largest unit that leaves at least 1, where there are several.
Scaled unit_for(double value, Unit unit) {
  const double size = std::abs(value);
  if (unit == Unit::bytes) {
    constexpr std::array kNames = {" B", " KiB", " MiB", " GiB", " TiB"};
    const double power = size < 1 ? 0 : std::floor(std::log2(size) / 10);
    const auto at = std::min(static_cast<size_t>(power), kNames.size() - 1);
    return {std::exp2(10 * at), kNames[at]};
  }
  if (unit == Unit::seconds) {
    return size >= 7200 ? Scaled{3600, " h"}
        : size >= 120   ? Scaled{60, " min"}
        : size >= 1     ? Scaled{1, " s"}
                        : Scaled{1e-3, " ms"};
  }
  return unit == Unit::share ? Scaled{0.01, " %"} : Scaled{1, ""};
}

std::string show_number(double value) {
  if (std::abs(value) < 1000 || std::abs(value) > 1e12) {
    return digits(value, "%.4g");
  }
  std::string text = digits(std::abs(value), "%.0f");
  for (size_t at = text.size(); at > 3; text.insert(at, 1, ',')) {
    at -= 3;
  }
  return value < 0 ? '-' + text : text;
}

// From values to places in the picture.
struct Scale {
  double low = 0;
  double high = 1;
  double begin = 0; // where `low` is
  double end = 1;
  bool log = false;

  double at(double value) const {
    const double share = log ? std::log(value / low) / std::log(high / low)
                             : (value - low) / (high - low);
    return begin + share * (end - begin);
  }
};

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Powers of ten; if there are less than two of them, 2 and 5 times those too.
std::vector<double> log_marks(double low, double high) {
  std::vector<double> marks;
  for (double power = std::floor(std::log10(low)); power <= std::log10(high);
       ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double mark = factor * std::pow(10, power);
      if (mark >= low && mark <= high && (factor == 1 || high < 100 * low)) {
        marks.push_back(mark);
      }
    }
  }
  return marks;
}

std::string line_across(const char* kind, double y) {
  return std::string("<path class='") + kind + "' d='M" + digits(kLeft) + " " +
      digits(y) + "H" + digits(kRight) + "'/>";
}

std::string line_up(const char* kind, double x) {
  return std::string("<path class='") + kind + "' d='M" + digits(x) + " " +
      digits(kTop) + "V" + digits(kBottom) + "'/>";
}

std::string text_at(const char* kind, Point at, const std::string& text) {
  return std::string("<text class='") + kind + "' x='" + digits(at.x) +
      "' y='" + digits(at.y) + "'>" + text + "</text>\n";
}

std::string dot_at(const std::string& x, const std::string& y) {
  return "<circle class='fill' cx='" + x + "' cy='" + y + "' r='3.5'/>";
}

std::string line_style(const Series& series) {
  return std::string("class='") + (series.faint ? "faint" : "line") +
      "' stroke-dasharray='" +
      (series.faint ? "" : kDashes[series.style % kDashes.size()]) + "'";
}

std::string group(const Series& series) {
  return "<g class='s" + std::to_string(series.style % kColours) + "'>";
}

// A drawing is made once, from series that are thinned first.
class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    for (const auto& series : chart.series) {
      lines_.push_back(
          chart.kind == Chart::Kind::lines ? thin(series.points, kColumns)
                                           : series.points);
    }
    if (chart.kind == Chart::Kind::areas && !lines_.empty()) {
      stack();
    }
    log_ = chart.log_scale == LogScale::always;
    for (const auto& line : lines_) {
      for (const auto& point : line) {
        if (shown(point.y)) {
          x_bounds_.add(point.x);
          y_bounds_.add(point.y);
        }
      }
    }
    log_ = log_ ||
        (chart.log_scale == LogScale::if_wide && y_bounds_.low > 0 &&
         y_bounds_.high > kWide * y_bounds_.low);
  }

  // Nothing, if nothing can be seen.
  std::string svg() {
    if (y_bounds_.low > y_bounds_.high) {
      return "";
    }
    set_scales();
    const std::string id = escape(chart_.id);
    std::string out =
        "<svg viewBox='0 0 480 260' role='img' aria-labelledby='" + id +
        "-title " + id + "-desc'" + reading() + ">\n<title id='" + id +
        "-title'>" + escape(chart_.title) + "</title>\n<desc id='" + id +
        "-desc'>" + description() + "</desc>\n" + axes();
    for (const bool faint : {true, false}) { // the faint ones are behind
      for (size_t i = chart_.series.size(); i-- > 0;) {
        if (chart_.series[i].faint == faint) {
          out += group(chart_.series[i]) + drawn(i) + "</g>\n";
        }
      }
    }
    return out + "</svg>\n";
  }

 private:
  bool shown(double value) const {
    return std::isfinite(value) && (!log_ || value > 0);
  }

  // Thinned by their sum, because all must keep the same x.
  void stack() {
    std::vector<Point> sums;
    for (size_t i = 0; i < lines_[0].size(); ++i) {
      sums.push_back({.x = static_cast<double>(i)});
      for (const auto& line : lines_) {
        sums.back().y += std::fmax(line[i].y, 0); // 0 for a gap
      }
    }
    const auto kept = thin(sums, kColumns);
    std::vector<Point> below(kept.size());
    for (auto& line : lines_) {
      for (size_t i = 0; i < kept.size(); ++i) {
        const Point& point = line[static_cast<size_t>(kept[i].x)];
        below[i] = {.x = point.x, .y = below[i].y + std::fmax(point.y, 0)};
      }
      line = below;
    }
  }

  void set_scales() {
    // Bars need half of their width on either side, a single point some room.
    const bool bars = chart_.kind == Chart::Kind::bars;
    const double room = bars || !differ(x_bounds_.low, x_bounds_.high)
        ? std::max(0.5, 1e-6 * std::abs(x_bounds_.low))
        : 0;
    x_ = {x_bounds_.low - room, x_bounds_.high + room, kLeft, kRight};
    if (log_) {
      y_ = {y_bounds_.low / 1.1, y_bounds_.high * 1.1, kBottom, kTop, true};
      marks_ = log_marks(y_.low, y_.high);
      return;
    }
    if (chart_.from_zero || chart_.kind != Chart::Kind::lines) {
      y_bounds_.add(0);
    }
    if (!differ(y_bounds_.low, y_bounds_.high)) { // always the same value
      const double value = y_bounds_.high;
      y_bounds_.add(value == 0 ? 1 : value * 1.1);
      y_bounds_.add(value * 0.9);
    }
    unit_ = unit_for(y_bounds_.high, chart_.unit);
    marks_ = round_marks(
        y_bounds_.low / unit_.divisor, y_bounds_.high / unit_.divisor, 5);
    const double divisor = unit_.divisor;
    y_ = {marks_.front() * divisor, marks_.back() * divisor, kBottom, kTop};
  }

  // What the script on the page needs to turn places back into values.
  std::string reading() const {
    constexpr std::array kUnits = {"number", "bytes", "share", "seconds"};
    const auto scale = [](const Scale& s) {
      return digits(s.low, "%.9g") + " " + digits(s.high, "%.9g") + " " +
          digits(s.begin, "%g") + " " + digits(s.end, "%g") + "'";
    };
    return chart_.kind == Chart::Kind::bars
        ? ""
        : " data-x='" + scale(x_) + " data-y='" + scale(y_) + " data-unit='" +
            kUnits[static_cast<size_t>(chart_.unit)] + "' data-x-name='" +
            escape(chart_.x_name) + "'" + (log_ ? " data-log" : "") +
            (chart_.kind == Chart::Kind::areas ? " data-areas" : "");
  }

  // For those who hear the page.
  std::string description() const {
    std::string out = escape(chart_.about);
    for (const auto& series : chart_.series) {
      Bounds y;
      double last = 0;
      for (const auto& point : series.points) {
        if (shown(point.y)) {
          y.add(point.y);
          last = point.y;
        }
      }
      out += y.low > y.high ? ""
                            : ' ' + escape(series.name) + ": from " +
              show(y.low, chart_.unit) + " to " + show(y.high, chart_.unit) +
              ", last " + show(last, chart_.unit) + ".";
    }
    return out;
  }

  std::string axes() const {
    std::string out;
    for (const double mark : marks_) {
      const double y = y_.at(log_ ? mark : mark * unit_.divisor);
      const std::string text =
          log_ ? show(mark, chart_.unit) : show_number(mark) + unit_.name;
      out += line_across("grid", y) + text_at("y", {kLeft - 8, y}, text);
    }
    for (const double mark : round_marks(x_bounds_.low, x_bounds_.high, 4)) {
      if (mark == std::floor(mark) && mark >= x_.low && mark <= x_.high) {
        out += text_at("x", {x_.at(mark), kBottom + 19}, show_number(mark));
      }
    }
    for (const double mark : chart_.marks) {
      if (mark >= x_.low && mark <= x_.high) {
        out += line_up("mark", x_.at(mark));
      }
    }
    const std::string name =
        escape(chart_.x_name) + (log_ ? " (upwards: log scale)" : "");
    return out + line_across("axis", kBottom) +
        text_at("x", {(kLeft + kRight) / 2, kBottom + 39}, name);
  }

  std::string drawn(size_t i) const {
    const std::string name =
        "data-name='" + escape(chart_.series[i].name) + "'";
    if (chart_.kind == Chart::Kind::bars) {
      return bars(i);
    }
    return chart_.kind == Chart::Kind::areas
        ? "<path class='area' " + name + " d='" + area(i) + "'/>"
        : "<path " + line_style(chart_.series[i]) + " " + name + line(i);
  }

  // One path, broken at gaps; a point between gaps as a dot.
  std::string line(size_t i) const {
    std::string path;
    std::string dots;
    const auto& points = lines_[i];
    for (size_t j = 0; j < points.size(); ++j) {
      if (!shown(points[j].y)) {
        continue;
      }
      const std::string x = digits(x_.at(points[j].x));
      const std::string y = digits(y_.at(points[j].y));
      const bool first = j == 0 || !shown(points[j - 1].y);
      const bool last = j + 1 == points.size() || !shown(points[j + 1].y);
      path += (first ? 'M' : 'L') + x + ' ' + y;
      dots += chart_.series[i].dots || (first && last) ? dot_at(x, y) : "";
    }
    return " d='" + path + "'/>" + dots;
  }

  // Between this line and the one below it.
  std::string area(size_t i) const {
    std::string path;
    const auto add = [&](double x, double y) {
      path += path.empty() ? 'M' : 'L';
      path += digits(x_.at(x)) + ' ' + digits(y_.at(y));
    };
    for (const auto& point : lines_[i]) {
      add(point.x, point.y);
    }
    for (size_t j = lines_[i].size(); j-- > 0;) {
      add(lines_[i][j].x, i == 0 ? 0 : lines_[i - 1][j].y);
    }
    return path + "Z";
  }

  std::string bars(size_t i) const {
    const auto count = static_cast<double>(lines_.size());
    const double width = std::min((x_.at(1) - x_.at(0)) * 0.7 / count, 60.0);
    std::string out;
    for (const auto& point : lines_[i]) {
      if (shown(point.y)) {
        const double left = static_cast<double>(i) - count / 2;
        const double y = y_.at(point.y);
        out += "<rect class='area' x='" +
            digits(x_.at(point.x) + left * width) + "' y='" + digits(y) +
            "' width='" + digits(width * 0.94) + "' height='" +
            digits(kBottom - y) + "'><title>" + show(point.y, chart_.unit) +
            "</title></rect>";
      }
    }
    return out;
  }

  const Chart& chart_;
  std::vector<std::vector<Point>> lines_;
  Bounds x_bounds_;
  Bounds y_bounds_;
  bool log_ = false;
  Scale x_;
  Scale y_;
  Scaled unit_{1, ""};
  std::vector<double> marks_; // in unit_, but for a log scale
};

std::string legend(const Chart& chart) {
  const std::string box = "<rect class='area' x='8' width='12' height='12'/>";
  const bool lines = chart.kind == Chart::Kind::lines;
  std::string out = "<ul class='legend'>";
  for (const auto& series : chart.series) {
    out += "<li><svg viewBox='0 0 28 12' aria-hidden='true'>" + group(series) +
        (lines ? "<path " + line_style(series) + " d='M0 6H28'/>" : box) +
        (series.dots ? dot_at("14", "6") : "") + "</g></svg>" +
        escape(series.name) + "</li>";
  }
  return out + "</ul>\n";
}

// Where the table has rows: some of each series, at even distances.
std::set<double> table_rows(const Chart& chart) {
  std::set<double> rows;
  for (const auto& series : chart.series) {
    const size_t count = series.points.size();
    const size_t picked = std::min(count, kTableRows);
    for (size_t i = 1; i <= picked; ++i) {
      rows.insert(series.points[i * count / picked - 1].x);
    }
  }
  return rows;
}

std::string number_table(const Chart& chart) {
  std::string out =
      "<details><summary>Numbers</summary><div class='scroll' tabindex='0' role='region' aria-label='Numbers of " +
      escape(chart.title) + "'><table><caption>At most " +
      std::to_string(kTableRows) +
      " points of each line, at even distances</caption><thead><tr><th scope='col'>" +
      escape(chart.x_name) + "</th>";
  for (const auto& series : chart.series) {
    out += "<th scope='col'>" + escape(series.name) + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (const double x : table_rows(chart)) {
    out += "<tr><th scope='row'>" + show_number(x) + "</th>";
    for (const auto& series : chart.series) {
      const auto at = std::ranges::lower_bound(series.points, x, {}, &Point::x);
      const bool there = at != series.points.end() && at->x == x;
      out += "<td>" + (there ? show(at->y, chart.unit) : "") + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div></details>\n";
}

} // namespace

std::string draw(const Chart& chart) {
  const std::string svg = Drawing(chart).svg();
  return svg.empty()
      ? ""
      : "<figure class='chart'>\n<figcaption><h3>" + escape(chart.title) +
          "</h3><p>" + escape(chart.about) + "</p></figcaption>\n" +
          (chart.series.size() > 1 ? legend(chart) : "") + svg +
          number_table(chart) + "</figure>\n";
}

std::vector<Point> thin(const std::vector<Point>& points, size_t columns) {
  if (points.size() <= 2 * columns) {
    return points;
  }
  std::set<size_t> kept{0, points.size() - 1};
  for (size_t column = 0, i = 0; column < columns; ++column) {
    size_t low = i;
    size_t high = i;
    size_t gap = i;
    for (; i < (column + 1) * points.size() / columns; ++i) {
      // With a gap at the begin nothing compares, and the next one is taken.
      const double y = points[i].y;
      gap = std::isfinite(y) ? gap : i;
      low = y >= points[low].y || !std::isfinite(y) ? low : i;
      high = y <= points[high].y || !std::isfinite(y) ? high : i;
    }
    kept.insert({low, high, gap});
  }
  std::vector<Point> result;
  for (const size_t i : kept) {
    result.push_back(points[i]);
  }
  return result;
}

std::vector<double> round_marks(double low, double high, size_t about) {
  if (!differ(low, high)) {
    return {low};
  }
  const double rough = (high - low) / static_cast<double>(about);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    step = factor * power >= rough * 0.999 ? factor * power : step;
  }
  std::vector<double> marks;
  const double end = std::ceil(high / step - 1e-9);
  for (double i = std::floor(low / step + 1e-9); i <= end; ++i) {
    marks.push_back(i * step + 0.0); // never -0
  }
  return marks;
}

std::string show(double value, Unit unit) {
  if (!std::isfinite(value)) {
    return "not finite";
  }
  if (unit == Unit::share) {
    return digits(value * 100, "%.3g") + " %";
  }
  const Scaled scaled = unit_for(value, unit);
  return show_number(value / scaled.divisor) + scaled.name;
}

std::string escape(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array kNames = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string out;
  for (const char c : text) {
    const size_t special = kSpecial.find(c);
    if (special != std::string_view::npos) {
      out += kNames[special];
    } else if ((c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 0x7f) {
      out += "\uFFFD"; // HTML has none
    } else {
      out += c;
    }
  }
  return out;
}

} // namespace zero::report

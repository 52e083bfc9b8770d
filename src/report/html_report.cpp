#include "report/html_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/file_io.h"
#include "report/chart.h"

namespace zero::report {

namespace {

constexpr size_t kMaxSamples = 6; // of generated text, of all runs
constexpr size_t kMaxSampleBytes = 4000;

using Facts = std::vector<Fact>;

// Text is measured in tokens, everything else in samples.
UpdateValue throughput(bool tokens) {
  return field(
      tokens ? &Update::tokens_per_second : &Update::samples_per_second);
}

bool has_several_ranks(const RunLog& run) {
  return std::ranges::any_of(
      run.updates, [](const Update& update) { return update.num_ranks > 1; });
}

Facts headlines(const RunLog& run, bool tokens) {
  Facts facts;
  const auto add = [&](const char* name, double value, Unit unit) {
    if (std::isfinite(value)) {
      facts.push_back({.name = name, .value = show(value, unit)});
    }
  };
  const auto memory = [](const RunLog&, const Update& update) {
    return update.memory_bytes();
  };
  const auto resident = [](const RunLog& log, const Update& update) {
    const auto bytes = log.resident(update);
    return bytes.empty() ? kNoValue
                         : std::accumulate(bytes.begin(), bytes.end(), 0.0);
  };
  const Points loss = smoothed(curve(run, field(&Update::loss)));
  const double last_loss = loss.empty() ? kNoValue : loss.back().y;
  const double best_loss = lowest(curve(run, &Evaluation::loss));
  const double accuracy = highest(curve(run, &Evaluation::accuracy));
  const double speed = median(curve(run, throughput(tokens)));
  add("Updates", static_cast<double>(run.updates.size()), Unit::number);
  add("Training loss", last_loss, Unit::number);
  add("Best evaluation loss", best_loss, Unit::number);
  add("Best accuracy", accuracy, Unit::share);
  add(tokens ? "Tokens per second" : "Samples per second", speed, Unit::number);
  add("Memory of all ranks", highest(curve(run, resident)), Unit::bytes);
  add("Training state of rank 0", highest(curve(run, memory)), Unit::bytes);
  if (has_several_ranks(run)) {
    add("Time not waited", run.overlap(), Unit::share);
  }
  return facts;
}

// Not the half of a letter at its end.
std::string shortened(std::string text) {
  if (text.size() > kMaxSampleBytes) {
    size_t end = kMaxSampleBytes;
    while (end > 0 && (text[end] & 0xc0) == 0x80) {
      --end;
    }
    text = text.substr(0, end) + " …";
  }
  return text;
}

enum class Rows {
  all,
  all_with_marks, // on those that differ
  only_different,
};

// ---- the page ----

class Page {
 public:
  explicit Page(const std::vector<RunLog>& runs)
      : runs_(runs), several_(runs.size() > 1) {
    std::set<std::string> names;
    for (const auto& run : runs) {
      names.insert(run.name);
      tokens_ = tokens_ && !is_empty(curve(run, throughput(true)));
    }
    for (const auto& run : runs) {
      names_.push_back(names.size() == runs.size() ? run.name : run.folder);
    }
  }

  std::string html() {
    const std::string title = several_
        ? std::to_string(runs_.size()) + " training runs side by side"
        : names_[0];
    out_ =
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; script-src '";
    out_ += kReportScriptHash;
    out_ +=
        "'\">\n<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<link rel='icon' href='data:,'>\n<title>" +
        escape(title) + " – training report</title>\n<style>" + kReportStyle +
        "</style>\n</head>\n<body>\n<main>\n<h1>" + escape(title) + "</h1>\n";
    overview();
    learning();
    notes();
    speed();
    memory();
    samples();
    configuration();
    facts();
    return out_ + "</main>\n<script>" + kReportScript +
        "</script>\n</body>\n</html>\n";
  }

 private:
  void section(const char* title, const std::string& body) {
    out_ += body.empty() ? ""
                         : std::string("<section>\n<h2>") + title + "</h2>\n" +
            body + "</section>\n";
  }
  void charts(const char* title, const std::string& body) {
    section(
        title, body.empty() ? "" : "<div class='charts'>" + body + "</div>");
  }

  void overview() {
    std::vector<Facts> all;
    for (const auto& run : runs_) {
      all.push_back(headlines(run, tokens_));
    }
    if (several_) {
      section("Results", table(all, Rows::all));
      return;
    }
    for (const auto& fact : runs_[0].facts) {
      if (fact.name == "model") {
        out_ += "<p class='soft'>" + escape(fact.value) + "</p>\n";
      }
      if (fact.name == "ended" && fact.value != "finished") {
        out_ += "<p class='card' role='status'><strong>" + escape(fact.value) +
            "</strong></p>\n";
      }
    }
    out_ += "<dl class='tiles'>\n";
    for (const auto& [name, value] : all[0]) {
      out_ += "<div><dt>" + name + "</dt><dd>" + value + "</dd></div>\n";
    }
    out_ += "</dl>\n";
  }

  // A line of each run; of one run, what it was smoothed from as well.
  void add_lines(Chart& chart, const UpdateValue& value, bool smooth) const {
    for (size_t i = 0; i < runs_.size(); ++i) {
      Points points = curve(runs_[i], value);
      const size_t window = smooth ? smooth_over(points) : 1;
      if (is_empty(points)) {
        continue;
      }
      std::string name = several_ ? names_[i] : "each update";
      if (window > 1) {
        const auto mean = "mean of " + std::to_string(window) + " updates";
        Points line = smoothed(points);
        if (!several_) {
          chart.series.push_back({name, std::move(points), i, /*faint=*/true});
        }
        name = several_ ? name + ", " + mean : mean;
        points = std::move(line);
      }
      chart.series.push_back({name, std::move(points), i});
    }
  }

  std::string lines(Chart chart, const UpdateValue& value, bool smooth) const {
    add_lines(chart, value, smooth);
    return draw(chart);
  }

  void add_dots(Chart& chart, const char* name, float Evaluation::*member)
      const {
    // The first colour is that of training, in all charts.
    const auto style = static_cast<size_t>(
        1 + std::ranges::count(chart.series, true, &Series::dots));
    for (size_t i = 0; i < runs_.size(); ++i) {
      Points points = curve(runs_[i], member);
      if (!is_empty(points)) {
        chart.series.push_back(
            {.name = several_ ? names_[i] + ", " + name : name,
             .points = std::move(points),
             .style = several_ ? i : style,
             .dots = true});
      }
    }
  }

  static Chart chart(
      const char* id,
      const char* title,
      const char* about,
      Unit unit = Unit::number) {
    return {
        .id = id,
        .title = title,
        .about = about,
        .unit = unit,
        .from_zero = true};
  }

  void learning() {
    Chart loss = chart("loss", "Loss", "Lower is better.");
    loss.from_zero = false;
    loss.log_scale = LogScale::if_wide;
    if (!several_) {
      for (const auto& note : runs_[0].notes) {
        loss.marks.push_back(static_cast<double>(note.step));
      }
    }
    add_lines(loss, field(&Update::loss), true);
    add_dots(loss, "evaluation", &Evaluation::loss);
    std::ptrdiff_t gaps = 0;
    for (const auto& run : runs_) {
      gaps += std::ranges::count_if(
          run.updates, [](float y) { return std::isnan(y); }, &Update::loss);
    }
    if (gaps > 0) {
      loss.about += " Updates without a finite loss, which are left out: " +
          std::to_string(gaps) + ".";
    }
    Chart perplexity = chart(
        "perplexity",
        "Perplexity in evaluation",
        "Between how many tokens the model wavers: lower is better.");
    perplexity.log_scale = LogScale::if_wide;
    add_dots(perplexity, "perplexity", &Evaluation::perplexity);
    Chart accuracy = chart(
        "accuracy",
        "Accuracy in evaluation",
        "The share that was right: higher is better.",
        Unit::share);
    add_dots(accuracy, "first guess", &Evaluation::accuracy);
    // Of several runs each has one style, which would stand for both here.
    Chart top5 = chart(
        "top5",
        "Top-5 accuracy in evaluation",
        "The share that was among five guesses: higher is better.",
        Unit::share);
    add_dots(
        several_ ? top5 : accuracy, "one of five guesses", &Evaluation::top5);
    Chart norm = chart(
        "norm", "Gradient norm", "Before clipping. Peaks are unusual batches.");
    norm.log_scale = LogScale::if_wide;
    const Chart rate = chart("lr", "Learning rate", "Of each update.");
    charts(
        "Learning",
        draw(loss) + draw(perplexity) + draw(accuracy) + draw(top5) +
            lines(norm, field(&Update::grad_norm), true) +
            lines(rate, field(&Update::lr), false));
  }

  Points waiting_of_ranks(const RunLog& run) const {
    Points bars;
    for (const auto& update : run.updates) {
      const auto seconds = run.waiting(update);
      for (size_t rank = 0; rank < seconds.size(); ++rank) {
        if (rank == bars.size()) {
          bars.push_back({.x = static_cast<double>(rank), .y = 0});
        }
        bars[rank].y += std::isfinite(seconds[rank]) ? seconds[rank] : 0;
      }
    }
    return bars;
  }

  void speed() {
    const Chart rate = chart(
        "throughput",
        tokens_ ? "Tokens per second" : "Samples per second",
        "Of all ranks together: higher is better.");
    const Chart overlap = chart(
        "overlap",
        "Communication hidden behind computation",
        "The share of their time that the ranks did not wait for each other or for parameters: at 100 % all communication was hidden.",
        Unit::share);
    Chart waiting = chart(
        "waiting",
        "Time lost to waiting",
        "What the training thread of each rank waited for other ranks or for parameters, over the whole run.",
        Unit::seconds);
    waiting.x_name = "rank";
    waiting.kind = Chart::Kind::bars;
    for (size_t i = 0; i < runs_.size(); ++i) {
      waiting.series.push_back({names_[i], waiting_of_ranks(runs_[i]), i});
    }
    Chart traffic = chart(
        "traffic",
        "Traffic into rank 0",
        "Bytes received in each update.",
        Unit::bytes);
    add_parts(traffic, kTrafficParts, &Update::traffic, &Update::traffic_bytes);
    const auto hidden = [](const RunLog& run, const Update& update) {
      return run.overlap(update);
    };
    // One rank waits for nobody.
    const bool talks = std::ranges::any_of(runs_, has_several_ranks);
    charts(
        "Speed",
        lines(rate, throughput(tokens_), true) +
            (talks
                 ? lines(overlap, hidden, true) + draw(waiting) + draw(traffic)
                 : ""));
  }

  // A series for each part that is not always nothing; of several runs, one for
  // each run, of all parts.
  template <class Parts, class Values>
  void add_parts(
      Chart& chart,
      const Parts& parts,
      Values Update::*values,
      double (Update::*all)() const) const {
    if (several_) {
      const auto sum = [&](const RunLog&, const Update& update) {
        return (update.*all)();
      };
      add_lines(chart, sum, false);
      return;
    }
    for (size_t part = 0; part < parts.size(); ++part) {
      const auto value = [&](const RunLog&, const Update& update) {
        return (update.*values)[part];
      };
      Points points = curve(runs_[0], value);
      std::string name = parts[part];
      if (name != "gathered" && highest(points) > 0) { // its peak counts
        std::ranges::replace(name, '_', ' ');
        chart.series.push_back({name, std::move(points), chart.series.size()});
      }
    }
  }

  void memory() {
    Chart held = chart(
        "memory",
        "Memory of rank 0",
        "What libzero holds for training; of gathered parameters, the most at any time of the update.",
        Unit::bytes);
    held.kind = several_ ? Chart::Kind::lines : Chart::Kind::areas;
    add_parts(held, kMemoryParts, &Update::memory, &Update::memory_bytes);
    const Chart resident = chart(
        "resident",
        "Largest process",
        "Resident memory of the rank that has most, with libtorch and all activations.",
        Unit::bytes);
    const auto largest = [](const RunLog& run, const Update& update) {
      const auto bytes = run.resident(update);
      return bytes.empty() ? kNoValue : *std::ranges::max_element(bytes);
    };
    charts("Memory", draw(held) + lines(resident, largest, false));
  }

  // Marked in the chart of the loss, too.
  void notes() {
    std::string body;
    for (size_t i = 0; i < runs_.size(); ++i) {
      for (const auto& [step, text] : runs_[i].notes) {
        body += "<p class='card'><span class='soft'>" +
            (several_ ? escape(names_[i]) + ", after " : "After ") +
            show(static_cast<double>(step), Unit::number) +
            " updates:</span> " + escape(text) + "</p>\n";
      }
    }
    section("What happened", body);
  }

  // The last, and earlier ones at even distances.
  void samples() {
    std::string body;
    for (size_t i = 0; i < runs_.size(); ++i) {
      std::vector<const Evaluation*> texts;
      for (const auto& evaluation : runs_[i].evaluations) {
        if (!evaluation.text.empty()) {
          texts.push_back(&evaluation);
        }
      }
      const size_t most = std::max<size_t>(kMaxSamples / runs_.size(), 1);
      const size_t count = std::min(texts.size(), most);
      for (size_t j = 0; j < count; ++j) {
        const auto& sample =
            *texts[texts.size() - 1 - j * texts.size() / count];
        const auto step = static_cast<double>(sample.step);
        body += "<blockquote class='card'><p class='soft'>" +
            (several_ ? escape(names_[i]) + ", after " : "After ") +
            show(step, Unit::number) + " updates</p><pre>" +
            escape(shortened(sample.text)) + "</pre></blockquote>\n";
      }
    }
    section("What the model writes", body);
  }

  void configuration() {
    std::string body;
    std::vector<Facts> all;
    for (size_t i = 0; i < runs_.size(); ++i) {
      all.push_back(runs_[i].settings);
      const std::string name = several_ ? "All of " + names_[i] : "Show it";
      if (!runs_[i].config.empty()) {
        body += "<details class='card'><summary>" + escape(name) +
            "</summary><pre>" + escape(runs_[i].config) + "</pre></details>\n";
      }
    }
    if (several_) {
      const std::string different = table(all, Rows::only_different);
      body = "<p class='soft'>Settings that differ: " +
          std::string(different.empty() ? "none" : "") + "</p>\n" + different +
          body;
    }
    section("Configuration", body);
  }

  void facts() {
    std::vector<Facts> all;
    for (const auto& run : runs_) {
      all.push_back(run.facts);
      all.back().insert(all.back().begin(), {"folder", run.folder});
    }
    section("Facts", table(all, Rows::all_with_marks));
  }

  // A column for each run.
  std::string table(const std::vector<Facts>& all, Rows which) const {
    std::vector<std::string> order;
    std::map<std::string, std::vector<std::string>> rows;
    for (size_t i = 0; i < all.size(); ++i) {
      for (const auto& [name, value] : all[i]) {
        auto& row = rows[name];
        if (row.empty()) {
          row.resize(all.size(), "–");
          order.push_back(name);
        }
        row[i] = value;
      }
    }
    std::string body;
    for (const auto& name : order) {
      const auto& row = rows[name];
      const bool differs = std::ranges::count(row, row[0]) != std::ssize(row);
      const bool mark = differs && which == Rows::all_with_marks;
      if (differs || which != Rows::only_different) {
        body += (mark ? "<tr class='differs'>" : "<tr>") +
            cells("th scope='row'", {name + (mark ? " ≠" : "")}) +
            cells("td", row) + "</tr>\n";
      }
    }
    if (body.empty()) {
      return "";
    }
    return "<div class='card'><div class='scroll' tabindex='0'><table class='facts'>" +
        (several_ ? "<thead><tr><td></td>" + cells("th scope='col'", names_) +
                 "</tr></thead>"
                  : "") +
        "<tbody>\n" + body + "</tbody></table></div></div>\n";
  }

  static std::string cells(
      const std::string& tag,
      const std::vector<std::string>& texts) {
    std::string out;
    for (const auto& text : texts) {
      out += "<" + tag + ">" + escape(text) + "</" + tag.substr(0, 2) + ">";
    }
    return out;
  }

  const std::vector<RunLog>& runs_;
  bool several_;
  bool tokens_ = true; // all runs count them
  std::vector<std::string> names_;
  std::string out_;
};

} // namespace

std::string html_report(const std::vector<RunLog>& runs) {
  if (runs.empty()) {
    throw ConfigError(
        "a report of no run was asked for. Fix: name at least one run folder");
  }
  return Page(runs).html();
}

void write_html_report(
    const std::vector<RunLog>& runs,
    const std::string& path) {
  base::write_file(path, html_report(runs));
}

} // namespace zero::report

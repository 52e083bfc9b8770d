#include "report/run_log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/file_io.h"

namespace zero::report {

namespace {

using OrderedJson = nlohmann::ordered_json;

template <class Owner>
struct NumberField {
  std::string_view key;
  float Owner::*member;
};
constexpr NumberField<Update> kUpdateFields[] = {
    {"epoch", &Update::epoch},
    {"loss", &Update::loss},
    {"lr", &Update::lr},
    {"grad_norm", &Update::grad_norm},
    {"seconds", &Update::seconds},
    {"samples_per_second", &Update::samples_per_second},
    {"tokens_per_second", &Update::tokens_per_second}};
constexpr NumberField<Evaluation> kEvaluationFields[] = {
    {"loss", &Evaluation::loss},
    {"perplexity", &Evaluation::perplexity},
    {"accuracy", &Evaluation::accuracy},
    {"top5", &Evaluation::top5}};
constexpr std::string_view kRankFields[] = {
    "waiting",
    "communication",
    "resident"};

// A configuration is written by hand or by the library: neither is larger.
constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr int kMaxDepth = 64;

// Takes the values of one line as the parser meets them. A tree for every line
// would take several times as long.
class LineReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  void begin_line() {
    update = Update{};
    evaluation = Evaluation{};
    note.clear();
    has_step = is_evaluation = is_object = false;
    for (auto& values : ranks) {
      values.clear();
    }
    keys_.clear();
    depth_ = 0;
  }

  Update update;
  Evaluation evaluation;
  std::string note;
  std::array<std::vector<float>, std::size(kRankFields)> ranks;
  bool has_step = false;
  bool is_evaluation = false;
  bool is_object = false;

  bool null() override {
    return take_number(kNoValue);
  }
  bool boolean(bool /*value*/) override {
    return true;
  }
  bool number_integer(number_integer_t value) override {
    take_step(value);
    return take_number(static_cast<float>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    take_step(static_cast<int64_t>(value));
    return take_number(static_cast<float>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return take_number(static_cast<float>(value));
  }
  bool string(string_t& value) override {
    if (!keys_.empty() && keys_.back() == "text" && depth_ <= 2) {
      evaluation.text = std::move(value);
    } else if (depth_ == 1 && keys_.back() == "note") {
      note = std::move(value);
    }
    return true;
  }
  bool binary(binary_t& /*value*/) override {
    return true;
  }
  bool start_object(size_t /*count*/) override {
    is_object = is_object || depth_ == 0;
    is_evaluation = is_evaluation ||
        (depth_ == 1 && !keys_.empty() && keys_.back() == "eval");
    keys_.emplace_back();
    return ++depth_ <= kMaxDepth;
  }
  bool key(string_t& value) override {
    keys_.back() = value; // the parser goes on with its own
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t /*count*/) override {
    return ++depth_ <= kMaxDepth;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(
      size_t /*position*/,
      const std::string& /*token*/,
      const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  void take_step(int64_t value) {
    if (depth_ == 1 && !keys_.empty() && keys_[0] == "step") {
      update.step = evaluation.step = value;
      has_step = true;
    }
  }

  bool take_number(float value) {
    value = std::isfinite(value) ? value : kNoValue;
    if (depth_ == 1 && keys_.size() == 1) {
      set(kUpdateFields, update, keys_[0], value);
    } else if (depth_ == 2 && keys_.size() == 2) {
      if (keys_[0] == "eval") {
        set(kEvaluationFields, evaluation, keys_[1], value);
      } else if (keys_[0] == "memory") {
        set(kMemoryParts, update.memory, value);
      } else if (keys_[0] == "traffic") {
        set(kTrafficParts, update.traffic, value);
      }
    } else if (depth_ == 3 && keys_.size() == 2 && keys_[0] == "ranks") {
      for (size_t i = 0; i < ranks.size(); ++i) {
        if (keys_[1] == kRankFields[i]) {
          ranks[i].push_back(value);
        }
      }
    }
    return true;
  }

  template <class Fields, class Owner>
  static void set(
      const Fields& fields,
      Owner& owner,
      std::string_view key,
      float value) {
    for (const auto& field : fields) {
      if (field.key == key) {
        owner.*field.member = value;
      }
    }
  }
  template <class Parts, class Values>
  void set(const Parts& parts, Values& values, float value) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (keys_[1] == parts[i]) {
        values[i] = value;
      }
    }
  }

  std::vector<std::string> keys_; // of the objects around a value
  int depth_ = 0; // of objects and lists
};

bool parse_line(LineReader& reader, const std::string& line) {
  reader.begin_line();
  return nlohmann::json::sax_parse(line, &reader) && reader.is_object;
}

// Ranks are as many as the longest list has; what another lacks is no value.
void add_update(RunLog& run, LineReader& reader) {
  Update& update = reader.update;
  size_t count = 0;
  for (const auto& values : reader.ranks) {
    count = std::max(count, values.size());
  }
  update.num_ranks = static_cast<uint32_t>(count);
  update.ranks_begin = run.per_rank.size();
  for (auto& values : reader.ranks) {
    values.resize(count, kNoValue);
    run.per_rank.insert(run.per_rank.end(), values.begin(), values.end());
  }
  run.updates.push_back(update);
}

void add_line(RunLog& run, LineReader& reader) {
  if (!reader.has_step) {
    return; // something that a later version writes
  }
  if (!reader.note.empty()) {
    run.notes.push_back({reader.update.step, std::move(reader.note)});
  } else if (reader.is_evaluation) {
    reader.evaluation.seconds = reader.update.seconds;
    run.evaluations.push_back(std::move(reader.evaluation));
  } else {
    add_update(run, reader);
  }
}

// The last one of each step, by step.
template <class Line>
void keep_last(std::vector<Line>& lines) {
  std::ranges::stable_sort(lines, {}, &Line::step);
  size_t kept = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i + 1 < lines.size() && lines[i].step == lines[i + 1].step) {
      continue;
    }
    if (kept != i) {
      lines[kept] = std::move(lines[i]);
    }
    ++kept;
  }
  lines.resize(kept);
}

void read_metrics(RunLog& run) {
  const std::string path = run.folder + "/metrics.jsonl";
  if (std::filesystem::exists(path)) {
    base::open_to_read(path, "'" + path + "'"); // no pipe to wait for
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw IoError(base::system_message(
        c10::str(
            "'",
            run.folder,
            "' is no run folder, which has metrics.jsonl and mostly config.json and run.json. Fix: name the folder that a training run wrote to"),
        "open",
        errno));
  }
  LineReader reader;
  std::string line;
  size_t broken = 0; // the number of a line, which the last one may be
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    if (broken != 0) {
      throw CorruptionError(c10::str(
          "'",
          path,
          "' is damaged: line ",
          broken,
          " is no JSON object, and more follows it. Fix: remove that line"));
    }
    if (parse_line(reader, line)) {
      add_line(run, reader);
    } else {
      broken = number;
    }
  }
  if (file.bad()) {
    throw IoError(base::system_message(
        c10::str("cannot read '", path, "'. Fix: look at its disk"),
        "read",
        errno));
  }
  if (broken == 1) {
    throw CorruptionError(c10::str(
        "'",
        path,
        "' is damaged: its only line is no JSON object. Fix: name the folder "
        "that a training run wrote to"));
  }
  keep_last(run.updates);
  keep_last(run.evaluations);
}

// Null if there is no such file.
OrderedJson read_json(const std::string& path) {
  if (!std::filesystem::exists(path)) {
    return nullptr;
  }
  const std::string text =
      base::read_file(path, c10::str("'", path, "'"), kMaxFileBytes);
  bool deep = false;
  const auto watch = [&](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    deep = deep || depth > kMaxDepth;
    return !deep;
  };
  OrderedJson json = text.size() > kMaxFileBytes
      ? OrderedJson(OrderedJson::value_t::discarded)
      : OrderedJson::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || deep) {
    throw CorruptionError(c10::str(
        "'",
        path,
        "' is no JSON, or larger than 16 MiB, or deeper than ",
        kMaxDepth,
        " levels. Fix: remove it, which the report can do without"));
  }
  return json;
}

std::string value_text(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Lists of plain values are one setting: "[1,2]".
void flatten(
    const OrderedJson& value,
    const std::string& path,
    std::vector<Fact>& facts) {
  const bool plain = std::ranges::none_of(
      value, [](const OrderedJson& part) { return part.is_structured(); });
  if (value.empty() || (!value.is_object() && plain)) {
    facts.push_back({.name = path, .value = value_text(value)});
    return;
  }
  for (const auto& [key, part] : value.items()) {
    flatten(part, path.empty() ? key : path + '.' + key, facts);
  }
}

double finite_sum(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) {
    sum += std::isfinite(value) ? value : 0;
  }
  return sum;
}

double rest_of(double part, double whole) {
  return whole > 0 ? std::clamp(1 - part / whole, 0.0, 1.0) : kNoValue;
}

} // namespace

double Update::memory_bytes() const {
  const float gathered = memory[1]; // which its peak includes
  return finite_sum(memory) - (std::isfinite(gathered) ? gathered : 0);
}

double Update::traffic_bytes() const {
  return finite_sum(traffic);
}

// Ranks tell with an update how long they waited in the one before.
double RunLog::seconds_waited_in(const Update& update) const {
  return &update == updates.data() ? kNoValue : (&update)[-1].seconds;
}

double RunLog::overlap(const Update& update) const {
  return rest_of(
      finite_sum(waiting(update)),
      seconds_waited_in(update) * update.num_ranks);
}

double RunLog::overlap() const {
  double waited = 0;
  double whole = 0;
  for (const auto& update : updates) {
    const double seconds = seconds_waited_in(update);
    if (std::isfinite(seconds)) {
      waited += finite_sum(waiting(update));
      whole += seconds * update.num_ranks;
    }
  }
  return rest_of(waited, whole);
}

RunLog read_run(const std::string& folder) {
  RunLog run;
  run.folder = folder;
  const auto path =
      std::filesystem::absolute(folder + "/.").lexically_normal().parent_path();
  run.name = path.filename().string();
  read_metrics(run);
  const OrderedJson facts = read_json(folder + "/run.json");
  if (facts.is_object()) {
    flatten(facts, "", run.facts);
  }
  const OrderedJson config = read_json(folder + "/config.json");
  if (!config.is_null()) {
    flatten(config, "", run.settings);
    run.config = config.dump(2);
  }
  return run;
}

// ---- curves ----

UpdateValue field(float Update::*member) {
  return [member](const RunLog&, const Update& update) -> double {
    return update.*member;
  };
}

Points curve(const RunLog& run, const UpdateValue& value) {
  Points points;
  for (const auto& update : run.updates) {
    const auto step = static_cast<double>(update.step);
    points.push_back({.x = step, .y = value(run, update)});
  }
  return points;
}

Points curve(const RunLog& run, float Evaluation::*member) {
  Points points;
  for (const auto& evaluation : run.evaluations) {
    const auto step = static_cast<double>(evaluation.step);
    points.push_back({.x = step, .y = evaluation.*member});
  }
  return points;
}

double lowest(const Points& points) {
  double result = kNoValue; // which fmin and fmax pass over
  for (const auto& point : points) {
    result = std::fmin(result, point.y);
  }
  return result;
}

double highest(const Points& points) {
  double result = kNoValue;
  for (const auto& point : points) {
    result = std::fmax(result, point.y);
  }
  return result;
}

bool is_empty(const Points& points) {
  return std::isnan(highest(points));
}

double median(const Points& points) {
  std::vector<double> values;
  for (const auto& point : points) {
    if (std::isfinite(point.y)) {
      values.push_back(point.y);
    }
  }
  const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), values.begin() + half, values.end());
  return values.empty() ? kNoValue : values[static_cast<size_t>(half)];
}

size_t smooth_over(const Points& points) {
  return std::clamp<size_t>(points.size() / 50, 1, 1000);
}

// The mean of the last few, without those that are not finite.
Points smoothed(const Points& points) {
  const size_t window = smooth_over(points);
  Points result = points;
  double total = 0;
  double count = 0;
  const auto add = [&](double y, double sign) {
    total += std::isfinite(y) ? sign * y : 0;
    count += std::isfinite(y) ? sign : 0;
  };
  for (size_t i = 0; i < points.size(); ++i) {
    add(points[i].y, 1);
    if (i >= window) {
      add(points[i - window].y, -1);
    }
    result[i].y = std::isfinite(points[i].y) ? total / count : kNoValue;
  }
  return result;
}

} // namespace zero::report

#include "tasks/run_record.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/file_io.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "report/html_report.h"
#include "report/run_log.h"

namespace zero::tasks {

using RecordJson = nlohmann::ordered_json;

namespace {

std::string make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw IoError(c10::str("cannot make '", path, "': ", error.message()));
  }
  return path;
}

OutputFolder open_empty(const TrainOptions& options) {
  OutputFolder folder(
      options.out.empty() ? next_output_folder(options.config_path)
                          : options.out,
      options.overwrite);
  folder.remove_old_run();
  return folder;
}

RecordJson memory_json(const MemoryAccount& memory) {
  return {
      {"parameters", memory.parameters},
      {"gathered", memory.gathered},
      {"gathered_peak", memory.gathered_peak},
      {"gradients", memory.gradients},
      {"optimizer", memory.optimizer},
      {"buffers", memory.buffers},
      {"spilled", memory.spilled}};
}

RecordJson traffic_json(const EngineTraffic& traffic) {
  return {
      {"intra_node", traffic.intra_node},
      {"inter_node", traffic.inter_node},
      {"control", traffic.control}};
}

std::string to_line(const RecordJson& json) {
  return json.dump(-1, ' ', false, RecordJson::error_handler_t::replace);
}

std::string formatted_number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

} // namespace

RunRecord::RunRecord(const TrainConfig& config, const TrainOptions& options)
    : folder_(open_empty(options)),
      metrics_(folder_.path("metrics.jsonl")),
      events_(make_folder(folder_.path("tensorboard"))),
      progress_(options.terminal_fd) {
  base::write_file(folder_.path("config.json"), config.to_json());
}

void RunRecord::begin(int64_t num_steps, int64_t report_every) {
  num_steps_ = num_steps;
  report_every_ = report_every;
}

void RunRecord::say(const std::string& line) {
  progress_.line(line);
}

void RunRecord::add(const UpdateRecord& update) {
  RecordJson line{
      {"step", update.step},
      {"epoch", update.epoch},
      {"loss", update.loss},
      {"lr", update.lr},
      {"grad_norm", update.grad_norm},
      {"seconds", update.seconds},
      {"samples_per_second", update.samples_per_second}};
  if (update.tokens_per_second > 0) {
    line["tokens_per_second"] = update.tokens_per_second;
  }
  line["memory"] = memory_json(update.memory);
  line["traffic"] = traffic_json(update.traffic);
  line["ranks"] = {
      {"waiting", update.waiting},
      {"communication", update.communication},
      {"resident", update.resident}};
  metrics_.add(to_line(line));

  events_.add_scalar("train/loss", update.loss, update.step);
  events_.add_scalar("train/learning_rate", update.lr, update.step);
  events_.add_scalar("train/gradient_norm", update.grad_norm, update.step);
  events_.add_scalar(
      "train/samples_per_second", update.samples_per_second, update.step);
  events_.add_scalar("memory/resident", sum(update.resident), update.step);

  seconds_ += update.seconds;
  seconds_since_line_ += update.seconds;
  ++updates_since_line_;
  const bool is_shown = update.step == 1 || update.step == num_steps_ ||
      update.step % report_every_ == 0;
  if (is_shown) {
    const double per_second =
        std::max(update.tokens_per_second, update.samples_per_second) *
        update.seconds * static_cast<double>(updates_since_line_) /
        seconds_since_line_;
    const double resident = sum(update.resident);
    progress_.line(c10::str(
        "step ",
        update.step,
        "/",
        num_steps_,
        "  loss ",
        progress_.strong(formatted_number("%.4f", update.loss)),
        "  lr ",
        formatted_number("%.2e", update.lr),
        "  grad_norm ",
        formatted_number("%.3f", update.grad_norm),
        "  memory ",
        base::in_bytes(static_cast<int64_t>(resident)),
        formatted_number(
            " (%.1f%%)  ",
            100 * resident / static_cast<double>(base::total_memory())),
        base::in_short(per_second),
        update.tokens_per_second > 0 ? " tokens/s" : " images/s"));
    seconds_since_line_ = 0;
    updates_since_line_ = 0;
  }
  progress_.bar(update.step, num_steps_, seconds_);
}

void RunRecord::add(const EvaluationRecord& evaluation) {
  RecordJson results = RecordJson::object();
  std::string shown;
  for (const auto& [name, value] : evaluation.results) {
    results[name] = value;
    events_.add_scalar("eval/" + name, value, evaluation.step);
    shown += c10::str(
        "  ", name, " ", progress_.strong(formatted_number("%.4f", value)));
  }
  RecordJson line{
      {"step", evaluation.step},
      {"eval", results},
      {"seconds", evaluation.seconds},
      {"samples", evaluation.samples}};
  if (!evaluation.text.empty()) {
    line["text"] = evaluation.text;
    events_.add_text("sample", evaluation.text, evaluation.step);
  }
  metrics_.add(to_line(line));
  progress_.line(c10::str(
      "evaluation after step ",
      evaluation.step,
      ":",
      shown,
      "  (",
      base::grouped(evaluation.samples),
      " samples, ",
      base::in_time(evaluation.seconds),
      evaluation.is_best ? "; the best so far)" : ")"));
}

void RunRecord::set_fact(const std::string& name, const std::string& text) {
  facts_[name] = text;
}

void RunRecord::set_fact(const std::string& name, double number) {
  facts_[name] = number;
}

void RunRecord::set_fact(const std::string& name, int64_t number) {
  facts_[name] = number;
}

void RunRecord::write_facts() const {
  base::write_file(
      folder_.path("run.json"),
      facts_.dump(2, ' ', false, RecordJson::error_handler_t::replace) + "\n");
}

std::string RunRecord::write_report() const {
  std::string path = folder_.path("report.html");
  report::write_html_report({report::read_run(folder_.folder())}, path);
  return path;
}

} // namespace zero::tasks

#include "tasks/run_record.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "base/utc_time.h"
#include "report/html_report.h"
#include "report/run_log.h"

namespace zero::tasks {

using RecordJson = nlohmann::ordered_json;

namespace {

constexpr const char* kRunning = "running"; // as run.json has it

void write_facts_to(const std::string& path, const RecordJson& facts) {
  base::write_file(
      path,
      facts.dump(2, ' ', false, RecordJson::error_handler_t::replace) + "\n");
}

std::string made_folder(const std::string& path) {
  base::make_folders(path);
  return path;
}

// First of all: by this a folder is known to be a run's, and what is in it not
// to be that of the run before.
RecordJson begun(
    const OutputFolder& folder,
    std::optional<int64_t> resumed_at) {
  RecordJson facts{{"ended", kRunning}};
  write_facts_to(folder.path("run.json"), facts);
  if (resumed_at) {
    report::MetricsFile::cut_after(folder.path("metrics.jsonl"), *resumed_at);
  } else {
    folder.remove_old_run();
  }
  return facts;
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

double sum(const std::vector<int64_t>& values) {
  return static_cast<double>(
      std::accumulate(values.begin(), values.end(), int64_t{0}));
}

} // namespace

OutputFolder open_output(const TrainOptions& options) {
  return {
      options.out.empty() ? next_output_folder(options.config_path)
                          : options.out,
      options.resume          ? IfThereIsARun::go_on
          : options.overwrite ? IfThereIsARun::overwrite
                              : IfThereIsARun::refuse};
}

RunRecord::RunRecord(
    const TrainConfig& config,
    const TrainOptions& options,
    OutputFolder folder,
    std::optional<int64_t> resumed_at)
    : folder_(std::move(folder)),
      facts_(begun(folder_, resumed_at)),
      metrics_(folder_.path("metrics.jsonl")),
      events_(made_folder(folder_.path("tensorboard"))),
      progress_(options.terminal_fd) {
  base::write_file(folder_.path("config.json"), config.to_json());
}

void RunRecord::begin(const RunFacts& facts) {
  started_ = base::Clock::now();
  num_steps_ = facts.num_steps;
  report_every_ = facts.report_every;
  say(c10::str(
      "model    ",
      facts.model,
      ", ",
      base::in_short(static_cast<double>(facts.num_parameters)),
      " parameters"));
  for (const std::string& note : facts.notes) {
    say(note);
  }
  say("data     " + facts.data);
  say(c10::str(
      "ranks    ",
      facts.num_ranks,
      " with ",
      base::counted(facts.num_threads, "thread"),
      facts.num_ranks == 1 ? "" : " each",
      ", ZeRO stage ",
      facts.stage,
      facts.shared_memory ? ", shared memory" : ""));
  say(c10::str(
      "batch    ",
      base::grouped(facts.sizes.train),
      " ",
      facts.sample_name,
      " = ",
      facts.sizes.micro,
      " x ",
      base::counted(facts.sizes.accumulation, "micro-step"),
      " x ",
      base::counted(facts.num_ranks, "rank"),
      "; ",
      base::counted(facts.num_steps, "step"),
      ", ",
      base::in_short(facts.num_epochs),
      " epochs"));
  say(c10::str(
      "memory   of each rank: parameters ",
      base::in_bytes(facts.memory.parameters),
      ", gradients ",
      base::in_bytes(facts.memory.gradients),
      ", optimizer ",
      base::in_bytes(facts.memory.optimizer),
      ", buffers ",
      base::in_bytes(facts.memory.buffers),
      "; activations come on top"));
  say("output   " + folder_.folder());
  facts_ = {
      {"model", facts.model},
      {"data", facts.data},
      {"parameters", facts.num_parameters},
      {"ranks", facts.num_ranks},
      {"threads per rank", facts.num_threads},
      {"stage", facts.stage},
      {"samples in a batch", facts.sizes.train},
      {"steps", facts.num_steps},
      {"started", base::now_in_utc()},
      {"ended", kRunning}};
  write_facts();
}

void RunRecord::end(const RunEnd& end) {
  const double seconds = base::seconds_since(started_);
  facts_["ended"] = end.how;
  facts_["seconds"] = seconds;
  for (const auto& [name, value] : end.last) {
    facts_["last " + name] = value;
  }
  for (const auto& [name, value] : end.best) {
    facts_["best " + name] = value;
  }
  if (!end.best.empty()) {
    facts_["best step"] = end.best_step;
  }
  write_facts();
  const std::string report = folder_.path("report.html");
  report::write_html_report({report::read_run(folder_.folder())}, report);
  say(c10::str(
      end.how.starts_with("failed") ? "failed" : end.how,
      " after ",
      base::counted(end.step, "step"),
      ", ",
      base::in_time(seconds)));
  say("report   " + report);
}

void end_unended_run(const std::string& folder, const std::string& how) {
  const std::string path = folder + "/run.json";
  if (!std::filesystem::exists(path)) {
    return;
  }
  std::optional<FolderLock> lock;
  try {
    lock.emplace(folder);
  } catch (const Error&) { // it is another's, who is at work
    return;
  }
  auto facts = RecordJson::parse(
      base::read_file(path, "'" + path + "'", kMaxFactsBytes),
      /*callback=*/nullptr,
      /*allow_exceptions=*/false);
  if (!facts.is_object() || facts.value("ended", "") != kRunning) {
    return;
  }
  facts["ended"] = how;
  try {
    write_facts_to(path, facts);
    report::write_html_report(
        {report::read_run(folder)}, folder + "/report.html");
  } catch (const IoError&) { // of a full disk the run itself has told
  }
}

void RunRecord::say(const std::string& line) {
  progress_.line(line);
}

void RunRecord::note(int64_t step, const std::string& what) {
  metrics_.add(to_line({{"step", step}, {"note", what}}));
  events_.add_text("note", what, step);
  say(what);
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

void RunRecord::write_facts() const {
  write_facts_to(folder_.path("run.json"), facts_);
}

} // namespace zero::tasks

#include "tasks/trainer.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/utils.h>
#include <zero/sampler.h>

#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "base/activity.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "data/prefetcher.h"
#include "report/trace_file.h"
#include "tasks/all_spans.h"
#include "tasks/nonfinite.h"
#include "tasks/stop_request.h"
#include "tasks/task.h"
#include "tasks/together.h"

namespace zero::tasks {

using base::Activity;
using base::Span;

namespace {

constexpr size_t kBatchesAhead = 3;
constexpr size_t kMaxTraceSpans = 1'000'000;

std::string now_as_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

int64_t num_parameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) {
    count += parameter.numel();
  }
  return count;
}

// Accuracy where there is one, else the loss.
bool is_better(const Results& one, const Results& other) {
  const auto value = [](const Results& results, const char* name) {
    for (const auto& [known, number] : results) {
      if (known == name) {
        return std::optional(number);
      }
    }
    return std::optional<double>();
  };
  const auto accuracy = value(one, "accuracy");
  return accuracy ? *accuracy > *value(other, "accuracy")
                  : *value(one, "loss") < *value(other, "loss");
}

class Trainer {
 public:
  Trainer(
      const World& world,
      const TrainConfig& config,
      const TrainOptions& options)
      : world_(world), config_(config), options_(options) {
    together(world_, [&] {
      sizes_ = config_.zero.batch_sizes(world_.size());
      task_ = make_task(config_);
      if (world_.rank() == 0) {
        record_ = std::make_unique<RunRecord>(config_, options_);
      }
    });
    // Ranks draw different numbers from here on, for dropout.
    torch::manual_seed(
        static_cast<uint64_t>(config_.train.seed + world_.rank()));
    count_parameters_ = num_parameters(*task_->module());
    engine_.emplace(world_, task_->module(), config_.zero);
    num_steps_ = config_.train.steps.value_or(steps_of_epochs());
  }

  bool run() {
    introduce();
    const StopRequest stop;
    try {
      while (engine_->global_step() < num_steps_ && !stopped_) {
        train_step(stop.is_made());
        const int64_t step = engine_->global_step();
        const int64_t every = config_.train.evaluate_every;
        const bool is_last = step == num_steps_ || stopped_;
        if (is_last || (every > 0 && step % every == 0)) {
          evaluate(step);
        }
      }
    } catch (const std::exception& error) {
      conclude(c10::str("failed: ", error.what()));
      throw;
    }
    save("model");
    write_trace();
    conclude(stopped_ ? "interrupted" : "finished");
    return !stopped_;
  }

 private:
  struct Round {
    double loss = 0; // mean over the ranks
    std::vector<double> waiting;
    std::vector<double> communication;
    std::vector<double> resident;
  };

  // ---- one step ----------------------------------------------------------

  void train_step(bool wants_to_stop) {
    const auto start = base::Clock::now();
    const auto before = base::activity_seconds();
    engine_->reset_traffic();
    const double epoch = epoch_of(engine_->global_step() + 1);
    const auto batches = next_round();
    Round round;
    StepResult result;
    do {
      double loss = 0;
      for (const Batch& batch : batches) {
        loss += train_on(batch);
      }
      round =
          agree(loss / static_cast<double>(sizes_.accumulation), wants_to_stop);
      result = step_after(batches);
    } while (result.abandoned);
    remember_activity(before);
    if (record_ == nullptr) {
      return;
    }
    UpdateRecord update{
        .step = result.step,
        .epoch = epoch,
        .loss = round.loss,
        .lr = result.lr,
        .grad_norm = result.grad_norm,
        .seconds = base::seconds_since(start),
        .memory = engine_->memory(),
        .traffic = engine_->traffic(),
        .waiting = std::move(round.waiting),
        .communication = std::move(round.communication),
        .resident = std::move(round.resident)};
    update.samples_per_second =
        static_cast<double>(sizes_.train) / update.seconds;
    if (task_->sample_length() > 1) {
      update.tokens_per_second = update.samples_per_second *
          static_cast<double>(task_->sample_length());
    }
    record_->add(update);
  }

  std::vector<Batch> next_round() {
    const Span span(Activity::load);
    if (!batches_) {
      batches_.emplace([this] { return make_batch(); }, kBatchesAhead);
    }
    std::vector<Batch> round;
    for (int64_t i = 0; i < sizes_.accumulation; ++i) {
      round.push_back(batches_->next());
    }
    return round;
  }

  // In the thread of the prefetcher.
  Batch make_batch() {
    const int64_t position =
        sampler().state().position + world_.rank() * sizes_.micro;
    return task_->training_batch(
        sampler().next(world_, sizes_.micro), position);
  }

  Sampler& sampler() {
    if (!sampler_) {
      sampler_.emplace(
          task_->num_training_samples(),
          SamplerOptions{.seed = static_cast<uint64_t>(config_.train.seed)});
    }
    return *sampler_;
  }

  double train_on(const Batch& batch) {
    at::Tensor loss;
    {
      const Span span(Activity::forward);
      loss = task_->loss(batch);
    }
    engine_->backward(loss);
    return loss.item<double>();
  }

  // Before the update: what is not finite on one rank stops all of them.
  Round agree(double loss, bool wants_to_stop) {
    const int64_t step = engine_->global_step() + 1;
    if (step % config_.train.report_every == 0 || step == 1) {
      resident_ = base::own_memory();
    }
    const auto rows = exchange_rows(
        world_,
        {loss,
         wants_to_stop ? 1.0 : 0.0,
         waited_,
         communicated_,
         static_cast<double>(resident_)});
    Round round;
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      const auto& row = rows[rank];
      if (!std::isfinite(row[0])) {
        throw NonfiniteError(c10::str(
            "step ",
            step,
            ": the loss of rank ",
            rank,
            " is ",
            row[0],
            ". Parameters are as they were before the step. Fix: lower the "
            "learning rate, or look for what is no number in the data"));
      }
      round.loss += row[0] / static_cast<double>(rows.size());
      stopped_ = stopped_ || row[1] != 0;
      round.waiting.push_back(row[2]);
      round.communication.push_back(row[3]);
      round.resident.push_back(row[4]);
    }
    return round;
  }

  StepResult step_after(const std::vector<Batch>& batches) {
    try {
      return engine_->step();
    } catch (const NonfiniteError&) {
      name_the_cause(batches);
    }
  }

  [[noreturn]] void name_the_cause(const std::vector<Batch>& batches) {
    size_t next = 0;
    const auto ranks = ranks_with_nonfinite_gradients(
        world_, task_->module()->parameters(), [&] {
          return next < batches.size() ? task_->loss(batches[next++])
                                       : at::Tensor();
        });
    std::string whose;
    for (const int rank : ranks) {
      whose += c10::str(whose.empty() ? "the gradients of rank " : ", ", rank);
    }
    throw NonfiniteError(c10::str(
        "step ",
        engine_->global_step() + 1,
        ": ",
        whose.empty()
            ? "the mean of the gradients is, though no rank's own are,"
            : whose + " are",
        " not finite. Parameters are as they were before the step. Fix: lower "
        "the learning rate, or look for what is no number in the data"));
  }

  // Told to the others with the next step: this one is not over when they
  // speak of it.
  void remember_activity(const base::ActivitySeconds& before) {
    const auto now = base::activity_seconds();
    const auto spent = [&](Activity activity) {
      return seconds_of(now, activity) - seconds_of(before, activity);
    };
    waited_ = spent(Activity::wait);
    communicated_ = spent(Activity::reduce) + spent(Activity::gather);
  }

  // ---- evaluation --------------------------------------------------------

  void evaluate(int64_t step) {
    const auto start = base::Clock::now();
    const int64_t count = task_->num_evaluation_samples();
    const auto [begin, end] = share_of(count, world_);
    std::vector<double> sums(kNumSums);
    std::string text;
    {
      const Span span(Activity::evaluate);
      const c10::NoGradGuard no_grad;
      task_->module()->eval();
      // Without gradients there is room for more samples at a time.
      const int64_t batch = 4 * sizes_.micro;
      for (int64_t i = begin; i < end; i += batch) {
        const auto part = task_->measure(
            task_->evaluation_batch(i, std::min(end, i + batch)));
        for (size_t k = 0; k < kNumSums; ++k) {
          sums[k] += part[k];
        }
      }
      if (world_.rank() == 0) {
        text = task_->sample();
      }
      task_->module()->train();
    }
    Sums all{};
    for (const auto& row : exchange_rows(world_, sums)) {
      for (size_t k = 0; k < kNumSums; ++k) {
        all[k] += row[k];
      }
    }
    const Results results = task_->results(all);
    const bool is_best = best_.empty() || is_better(results, best_);
    if (record_ != nullptr) {
      record_->add(EvaluationRecord{
          .step = step,
          .results = results,
          .seconds = base::seconds_since(start),
          .samples = count,
          .text = text,
          .is_best = is_best});
    }
    last_ = results;
    if (is_best) {
      best_ = results;
      best_step_ = step;
      save("best");
    }
  }

  // ---- what is left behind -----------------------------------------------

  void save(const std::string& name) {
    const Span span(Activity::save);
    std::string folder;
    together(world_, [&] {
      if (record_ != nullptr) {
        folder = record_->folder().path(name);
        std::filesystem::create_directories(folder);
        task_->write_model_files(folder);
      }
    });
    engine_->export_safetensors(folder + "/model.safetensors");
  }

  void write_trace() {
    if (!options_.trace) {
      return;
    }
    const auto all = spans_of_all_ranks(world_);
    if (record_ != nullptr) {
      const std::string path = record_->folder().path("trace.json");
      report::write_trace(all, path);
      record_->say("trace    " + path);
    }
  }

  void introduce() {
    if (options_.trace) {
      base::keep_spans(kMaxTraceSpans);
    }
    started_ = base::Clock::now();
    if (record_ == nullptr) {
      return;
    }
    const int stage = config_.zero.zero_optimization.stage;
    const MemoryAccount memory = engine_->memory();
    const double epochs = epoch_of(num_steps_);
    record_->begin(num_steps_, config_.train.report_every);
    record_->say(c10::str(
        "model    ",
        task_->describe_model(),
        ", ",
        base::in_short(static_cast<double>(count_parameters_)),
        " parameters"));
    for (const std::string& note : task_->notes()) {
      record_->say(note);
    }
    record_->say("data     " + task_->describe_data());
    record_->say(c10::str(
        "ranks    ",
        world_.size(),
        " with ",
        at::get_num_threads(),
        at::get_num_threads() == 1 ? " thread" : " threads",
        " each, ZeRO stage ",
        stage,
        config_.zero.libzero.shared_memory ? ", shared memory" : ""));
    record_->say(c10::str(
        "batch    ",
        base::grouped(sizes_.train),
        " ",
        task_->sample_name(),
        " = ",
        sizes_.micro,
        " x ",
        sizes_.accumulation,
        " micro-steps x ",
        world_.size(),
        " ranks; ",
        base::grouped(num_steps_),
        " steps, ",
        base::in_short(epochs),
        " epochs"));
    record_->say(c10::str(
        "memory   of each rank: parameters ",
        base::in_bytes(memory.parameters),
        ", gradients ",
        base::in_bytes(memory.gradients),
        ", optimizer ",
        base::in_bytes(memory.optimizer),
        ", buffers ",
        base::in_bytes(memory.buffers),
        "; activations come on top"));
    record_->say("output   " + record_->folder().folder());
    record_->set_fact("model", task_->describe_model());
    record_->set_fact("data", task_->describe_data());
    record_->set_fact("parameters", count_parameters_);
    record_->set_fact("ranks", int64_t{world_.size()});
    record_->set_fact("threads per rank", int64_t{at::get_num_threads()});
    record_->set_fact("stage", int64_t{stage});
    record_->set_fact("samples in a batch", sizes_.train);
    record_->set_fact("steps", num_steps_);
    record_->set_fact("started", now_as_text());
    record_->set_fact("ended", std::string("running"));
    record_->write_facts();
  }

  void conclude(const std::string& how) {
    if (record_ == nullptr) {
      return;
    }
    record_->set_fact("ended", how);
    record_->set_fact("seconds", base::seconds_since(started_));
    for (const auto& [name, value] : last_) {
      record_->set_fact("last " + name, value);
    }
    for (const auto& [name, value] : best_) {
      record_->set_fact("best " + name, value);
    }
    if (!best_.empty()) {
      record_->set_fact("best step", best_step_);
    }
    record_->write_facts();
    const std::string report = record_->write_report();
    record_->say(c10::str(
        how.starts_with("failed") ? "failed" : how,
        " after ",
        base::grouped(engine_->global_step()),
        " steps, ",
        base::in_time(base::seconds_since(started_))));
    record_->say("report   " + report);
  }

  int64_t steps_of_epochs() const {
    const double samples = config_.train.epochs.value_or(1) *
        static_cast<double>(task_->num_training_samples());
    return std::max<int64_t>(
        1,
        static_cast<int64_t>(
            std::ceil(samples / static_cast<double>(sizes_.train))));
  }

  double epoch_of(int64_t step) const {
    return static_cast<double>(step * sizes_.train) /
        static_cast<double>(task_->num_training_samples());
  }

  World world_;
  TrainConfig config_;
  TrainOptions options_;
  BatchSizes sizes_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<RunRecord> record_; // of rank 0
  std::optional<Engine> engine_;
  int64_t count_parameters_ = 0;
  int64_t num_steps_ = 0;
  bool stopped_ = false;
  base::TimePoint started_;

  double waited_ = 0; // seconds, in the last step
  double communicated_ = 0;
  int64_t resident_ = 0; // bytes

  Results last_;
  Results best_;
  int64_t best_step_ = 0;

  std::optional<Sampler> sampler_; // of the prefetcher's thread
  std::optional<data::Prefetcher<Batch>> batches_; // last: it uses the above
};

} // namespace

bool train(
    const World& world,
    const TrainConfig& config,
    const TrainOptions& options) {
  return Trainer(world, config, options).run();
}

} // namespace zero::tasks

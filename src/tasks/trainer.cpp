#include "tasks/trainer.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/utils.h>
#include <zero/sampler.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/activity.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "data/prefetcher.h"
#include "report/trace_file.h"
#include "tasks/all_spans.h"
#include "tasks/evaluate.h"
#include "tasks/nonfinite.h"
#include "tasks/results_text.h"
#include "tasks/run_checkpoints.h"
#include "tasks/stop_request.h"
#include "tasks/task.h"
#include "tasks/together.h"

namespace zero::tasks {

using base::Activity;
using base::Span;

namespace {

constexpr size_t kBatchesAhead = 3;
constexpr size_t kMaxTraceSpans = 1'000'000;
constexpr const char* kResultsNote = "results";
constexpr int64_t kMaxRanksOfSeeds = 1000; // more than there are

int64_t num_parameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) {
    count += parameter.numel();
  }
  return count;
}

// Thrown after a call in which the engine has gone on without a rank: whatever
// this one was in the middle of, the ranks begin together again.
class WentOn : public CommError {
 public:
  WentOn() : CommError("ranks were lost") {}
};

class Trainer {
 public:
  Trainer(
      const World& world,
      const TrainConfig& config,
      const TrainOptions& options)
      : world_(world),
        config_(config),
        options_(options),
        num_shares_(world.size()),
        checkpoints_(world, config.train, options) {
    if (world.is_joining()) {
      join_the_others();
      return;
    }
    std::optional<OutputFolder> output; // of rank 0
    together(world_, [&] {
      if (world_.rank() == 0) {
        output.emplace(open_output(options_));
      }
      sizes_ = config_.zero.batch_sizes(world_.size());
      task_ = make_task_or_say_why();
      check_batch();
    });
    // Ranks draw different numbers from here on, for dropout.
    torch::manual_seed(
        static_cast<uint64_t>(config_.train.seed + world_.rank()));
    count_parameters_ = num_parameters(*task_->module());
    engine_.emplace(world_, task_->module(), config_.zero);
    stop_.emplace(); // what is begun here has an end
    const auto resumed_at = resume();
    num_steps_ = config_.train.steps.value_or(steps_of_epochs());
    make_sampler();
    if (resumed_at.value_or(0) > num_steps_) {
      throw ConfigError(c10::str(
          "the run has ",
          *resumed_at,
          " steps behind it, and is to have ",
          num_steps_,
          ". Fix: raise train.steps or train.epochs"));
    }
    together(world_, [&] { // when nothing can be wrong with the run any more
      if (output) {
        record_ = std::make_unique<RunRecord>(
            config_, options_, std::move(*output), resumed_at);
      }
    });
    // Whoever is rank 0 when others are lost writes there.
    options_.out = text_of_rank_0(
        world_, record_ == nullptr ? "" : record_->folder().folder());
    looked_after_ = engine_->global_step();
    checkpoints_.start_clock();
  }

  // In place of a lost rank: where the run is, the others tell when they go on
  // with this one.
  void join_the_others() {
    task_ = make_task_or_say_why();
    count_parameters_ = num_parameters(*task_->module());
    engine_.emplace(world_, task_->module(), config_.zero);
    stop_.emplace();
    make_sampler();
    // Other numbers than those that were drawn before.
    torch::manual_seed(static_cast<uint64_t>(
        config_.train.seed + world_.rank() +
        kMaxRanksOfSeeds * (1 + engine_->global_step())));
    looked_after_ = engine_->global_step();
    checkpoints_.start_clock();
    is_new_ = true;
  }

  void make_sampler() {
    sampler_.emplace(
        task_->num_training_samples(),
        SamplerOptions{.seed = static_cast<uint64_t>(config_.train.seed)});
  }

  bool run() {
    if (options_.trace) {
      base::keep_spans(kMaxTraceSpans);
    }
    introduce();
    try {
      bool is_done = false;
      while (!is_done) {
        try {
          go_on_if_ranks_changed();
          train_to_the_end();
          is_done = true;
        } catch (const WentOn&) {
          // Also when a newcomer died before it was in, and nothing changed.
          batches_.reset();
        } catch (const PeerLost&) {
          engine_->recover();
        }
      }
    } catch (const NonfiniteError& error) {
      save("model"); // as it was before the step
      write_trace();
      conclude("failed: " + base::message_of(error));
      throw;
    } catch (const std::exception& error) {
      try {
        conclude("failed: " + base::message_of(error));
      } catch (const IoError&) { // of a full disk the error itself tells
      }
      throw;
    }
    conclude(stopped_ ? "interrupted" : "finished");
    return !stopped_;
  }

 private:
  // All of it can be begun again when ranks are lost, from where they are then.
  void train_to_the_end() {
    for (;;) {
      const int64_t step = engine_->global_step();
      if (looked_after_ < step && step < num_steps_ && !stopped_) {
        look_after(step);
      }
      looked_after_ = step;
      if (step >= num_steps_ || stopped_) {
        break;
      }
      train_step();
    }
    finish_checkpoint();
    if ((stopped_ || config_.train.save_at_end) &&
        !checkpoints_.is_saved(engine_->global_step())) {
      begin_checkpoint();
      finish_checkpoint();
    }
    save("model"); // whatever becomes of the evaluation
    if (!stopped_) {
      evaluate(num_steps_);
    }
    write_trace();
    world_.barrier(); // rank 0 has written it down
  }

  // What there is to do between two steps.
  void look_after(int64_t step) {
    if (checkpoints_.is_due(step) && !checkpoints_.is_saved(step)) {
      begin_checkpoint();
    }
    const int64_t every = config_.train.evaluate_every;
    if (every > 0 && step % every == 0) {
      evaluate(step);
    }
  }

  std::unique_ptr<Task> make_task_or_say_why() const {
    try {
      return make_task(config_);
    } catch (const c10::Error& error) {
      throw IoError(c10::str(
          "the model cannot be built: ",
          base::message_of(error),
          ". Fix: give it smaller sizes, or free memory"));
    }
  }

  void check_batch() const {
    if (sizes_.micro > task_->num_training_samples()) {
      throw ConfigError(c10::str(
          "a rank takes ",
          sizes_.micro,
          " ",
          task_->sample_name(),
          " at a time, and there are ",
          task_->num_training_samples(),
          " to train on. Fix: lower train_batch_size, or raise "
          "gradient_accumulation_steps"));
    }
    task_->check_batch(sizes_.micro);
  }

  struct Round {
    double loss = 0; // mean over the ranks
    std::vector<double> waiting;
    std::vector<double> communication;
    std::vector<int64_t> resident;
  };

  // ---- one step ----------------------------------------------------------

  void train_step() {
    const Span span(Activity::step);
    const auto start = base::Clock::now();
    const auto before = base::activity_seconds();
    engine_->reset_traffic();
    const double epoch = epoch_after(sizes_.train);
    std::vector<Batch> batches;
    const Round round = agree([&] {
      batches = next_round();
      double loss = 0;
      for (const Batch& batch : batches) {
        loss += train_on(batch);
      }
      return loss / static_cast<double>(sizes_.accumulation);
    });
    const StepResult result = step_after(batches);
    if (result.abandoned) {
      throw WentOn();
    }
    position_ += sizes_.train;
    remember_activity(before);
    UpdateRecord update{
        .step = result.step,
        .epoch = epoch,
        .loss = round.loss,
        .lr = result.lr,
        .grad_norm = result.grad_norm,
        .seconds = base::seconds_since(start),
        .memory = engine_->memory(),
        .traffic = engine_->traffic(),
        .waiting = round.waiting,
        .communication = round.communication,
        .resident = round.resident};
    update.samples_per_second =
        static_cast<double>(sizes_.train) / update.seconds;
    if (task_->sample_length() > 1) {
      update.tokens_per_second = update.samples_per_second *
          static_cast<double>(task_->sample_length());
    }
    if (record_ != nullptr) {
      record_->add(update);
    }
    last_update_ = std::move(update);
    throw_if_went_on();
  }

  // A round has sizes_.train samples, in micro-batches that are dealt out to
  // the ranks in turn. After the loss of a rank some may have one more than
  // others.
  int64_t num_micro_batches() const {
    return sizes_.train / sizes_.micro;
  }

  std::vector<Batch> next_round() {
    const Span span(Activity::load);
    if (!batches_) {
      batches_.emplace(
          [this, round = position_, next = int64_t{world_.rank()}]() mutable {
            const int64_t position = round + next * sizes_.micro;
            next += world_.size();
            if (next >= num_micro_batches()) {
              next = world_.rank();
              round += sizes_.train;
            }
            return make_batch(position);
          },
          kBatchesAhead);
    }
    std::vector<Batch> round;
    for (int64_t i = world_.rank(); i < num_micro_batches();
         i += world_.size()) {
      round.push_back(batches_->next());
    }
    return round;
  }

  // In the thread of the prefetcher.
  Batch make_batch(int64_t position) {
    return task_->training_batch(
        sampler_->samples(position, sizes_.micro), position);
  }

  // Of what is trained on.
  SamplerState sampler_state() const {
    return {
        .num_samples = task_->num_training_samples(),
        .seed = static_cast<uint64_t>(config_.train.seed),
        .position = position_};
  }

  double train_on(const Batch& batch) {
    at::Tensor loss;
    {
      const Span span(Activity::forward);
      loss = task_->loss(batch);
    }
    ++num_backwards_;
    // The engine takes the mean over all ranks and backwards, of which some may
    // have nothing to give.
    const auto num_backwards =
        static_cast<double>(engine_->accumulation_steps() * world_.size());
    const double share =
        num_backwards / static_cast<double>(num_micro_batches());
    engine_->backward(share == 1 ? loss : loss * share);
    throw_if_went_on();
    return loss.item<double>();
  }

  // Of a rank that has nothing to add: the others' backwards wait for it.
  void finish_backwards() {
    for (; num_backwards_ < engine_->accumulation_steps(); ++num_backwards_) {
      engine_->backward(at::zeros({}).requires_grad_());
      throw_if_went_on();
    }
  }

  // Before the update: what fails on one rank, or is not finite, stops all of
  // them.
  Round agree(const std::function<double()>& compute_loss) {
    double loss = 0;
    num_backwards_ = 0;
    const auto failure = failure_of([&] { loss = compute_loss(); });
    finish_backwards();
    const int64_t step = engine_->global_step() + 1;
    if (step % config_.train.report_every == 0 || step == 1) {
      resident_ = base::own_memory();
    }
    const auto rows = exchange_rows(
        world_,
        {loss,
         stop_->is_made() ? 1.0 : 0.0,
         waited_,
         communicated_,
         static_cast<double>(resident_),
         failure == nullptr ? 0.0 : 1.0,
         checkpoints_.is_asked_for() ? 1.0 : 0.0,
         checkpoints_.is_written() ? 1.0 : 0.0});
    try {
      throw_first(world_, rows, /*column=*/5, failure);
    } catch (...) {
      save("model"); // as it was before the step
      throw;
    }
    if (std::ranges::all_of(
            rows, [](const auto& row) { return row[7] != 0; })) {
      finish_checkpoint();
    }
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
      round.loss += row[0] / static_cast<double>(num_shares_);
      stopped_ = stopped_ || row[1] != 0;
      if (row[6] != 0) {
        checkpoints_.ask();
      }
      round.waiting.push_back(row[2]);
      round.communication.push_back(row[3]);
      round.resident.push_back(static_cast<int64_t>(row[4]));
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
    Evaluated evaluated;
    try {
      // Without gradients there is room for more samples at a time.
      evaluated = tasks::evaluate(world_, *task_, 4 * sizes_.micro, *stop_);
    } catch (const CommError&) {
      throw;
    } catch (...) {
      save("model"); // what is wrong with the evaluation is not with it
      throw;
    }
    stopped_ = stopped_ || evaluated.stopped;
    if (stopped_) {
      return; // a part of the samples is no result
    }
    const Results results = task_->results(evaluated.sums);
    // It may be found again, after a loss.
    const bool is_best =
        results_.best_step == step || is_better(results, results_.best);
    if (record_ != nullptr && recorded_evaluation_ != step) {
      recorded_evaluation_ = step;
      record_->add(EvaluationRecord{
          .step = step,
          .results = results,
          .seconds = base::seconds_since(start),
          .samples = task_->num_evaluation_samples(),
          .text = evaluated.text,
          .is_best = is_best});
    }
    results_.last = results;
    if (!evaluated.is_finite()) {
      throw NonfiniteError(c10::str(
          "the loss of the evaluation after step ",
          step,
          " is not finite: the model has diverged. Fix: lower the learning "
          "rate"));
    }
    if (is_best) {
      results_.best = results;
      results_.best_step = step;
      save("best");
    }
  }

  // ---- checkpoints -------------------------------------------------------

  // The step that the run goes on from, if there is one.
  std::optional<int64_t> resume() {
    const auto loaded = checkpoints_.resume(*engine_, sampler_state());
    if (!loaded) {
      resumed_from_ = options_.resume ? "nothing: there is no checkpoint" : "";
      return std::nullopt;
    }
    go_on_from(*loaded);
    resumed_from_ = c10::str("step ", loaded->step, ", ", loaded->path);
    return loaded->step;
  }

  void go_on_from(const LoadedCheckpoint& loaded) {
    if (loaded.sampler) {
      position_ = loaded.sampler->position;
    }
    if (const auto found = loaded.notes.find(kResultsNote);
        found != loaded.notes.end()) {
      results_ = results_from_text(found->second);
    }
  }

  // While training goes on.
  void begin_checkpoint() {
    finish_checkpoint();
    // Where it is, only rank 0 knows if the folder was chosen there.
    checkpoints_.begin(
        *engine_,
        options_.out + "/checkpoints",
        {.keep = config_.train.keep_checkpoints,
         .sampler = sampler_state(),
         .notes = {{kResultsNote, to_text(results_)}}});
  }

  // On all ranks together.
  void finish_checkpoint() {
    const auto path = checkpoints_.finish();
    if (path && record_ != nullptr) {
      record_->say("saved    " + *path);
    }
  }

  // ---- the loss of ranks -------------------------------------------------

  void throw_if_went_on() const {
    if (num_recoveries_ != engine_->recoveries().size()) {
      throw WentOn();
    }
  }

  // Those who go on may each have noticed it in another place: they agree on
  // what is done, and who writes it down. Newcomers learn where the run is.
  void go_on_if_ranks_changed() {
    const auto& recoveries = engine_->recoveries();
    if (num_recoveries_ == recoveries.size()) {
      return;
    }
    batches_.reset(); // before what it uses changes
    engine_->zero_grad();
    task_->module()->train();
    checkpoints_.give_up();
    const bool has_update =
        last_update_ && last_update_->step == engine_->global_step();
    const LoadedCheckpoint* loaded = nullptr; // that they went back to
    for (size_t i = num_recoveries_; i < recoveries.size(); ++i) {
      loaded = recoveries[i].loaded ? &*recoveries[i].loaded : loaded;
    }
    const auto rows = exchange_rows(
        world_,
        {static_cast<double>(looked_after_),
         stopped_ ? 1.0 : 0.0,
         record_ != nullptr ? 1.0 : 0.0,
         checkpoints_.is_asked() ? 1.0 : 0.0,
         static_cast<double>(checkpoints_.saved_step()),
         is_new_ ? 1.0 : 0.0,
         has_update ? 1.0 : 0.0,
         loaded != nullptr ? 1.0 : 0.0});
    if (rows.front()[5] != 0) {
      throw IoError(
          "nobody is left of those who knew where the run is: the others were "
          "lost while this one joined them. Fix: start the run again with "
          "--resume");
    }
    bool is_asked = false;
    auto saved_step = static_cast<int64_t>(rows.front()[4]);
    for (const auto& row : rows) {
      looked_after_ = std::min(looked_after_, static_cast<int64_t>(row[0]));
      stopped_ = stopped_ || row[1] != 0;
      is_asked = is_asked || row[3] != 0;
      const bool agrees =
          row[5] != 0 || static_cast<int64_t>(row[4]) == saved_step;
      saved_step = agrees ? saved_step : -1;
    }
    checkpoints_.agree(is_asked, saved_step);
    // Who has told of it before, in what another loss then cut off, does so
    // again with the others.
    const bool any_went_back =
        std::ranges::any_of(rows, [](const auto& row) { return row[7] != 0; });
    if (loaded != nullptr) {
      go_back_to(*loaded);
    } else if (any_went_back) {
      last_update_.reset();
      record_.reset();
    }
    results_ = results_from_text(text_of_rank_0(world_, to_text(results_)));
    options_.out = text_of_rank_0(world_, options_.out);
    take_on(exchange_rows(world_, where_the_run_is()).front());
    share_out();
    if (rows.front()[2] == 0 || any_went_back) {
      take_over_record(rows.front()[6] != 0 && !any_went_back);
    }
    if (record_ != nullptr) {
      for (size_t i = num_recoveries_; i < recoveries.size(); ++i) {
        record_->note(engine_->global_step(), describe(recoveries[i]));
      }
    }
    num_recoveries_ = recoveries.size();
    is_new_ = false;
  }

  // What a newcomer cannot know. All of it are whole numbers.
  std::vector<double> where_the_run_is() const {
    return {
        static_cast<double>(position_),
        static_cast<double>(num_steps_),
        static_cast<double>(num_shares_),
        static_cast<double>(sizes_.train),
        static_cast<double>(sizes_.micro),
        static_cast<double>(sizes_.accumulation)};
  }

  void take_on(const std::vector<double>& told) {
    const auto number = [&](size_t i) { return static_cast<int64_t>(told[i]); };
    position_ = number(0);
    num_steps_ = number(1);
    num_shares_ = number(2);
    sizes_.train = number(3);
    sizes_.micro = number(4);
    sizes_.accumulation = number(5);
  }

  // What was done since is done again, and written down again.
  void go_back_to(const LoadedCheckpoint& loaded) {
    go_on_from(loaded);
    checkpoints_.agree(checkpoints_.is_asked(), loaded.step);
    looked_after_ = loaded.step;
    recorded_evaluation_ = std::min(recorded_evaluation_, loaded.step);
    last_update_.reset();
    record_.reset();
  }

  void share_out() {
    if (config_.train.batch_on_loss == TrainSection::BatchOnLoss::shrink) {
      num_shares_ = world_.size();
      sizes_.train = sizes_.micro * sizes_.accumulation * num_shares_;
    }
    const int64_t most =
        (num_micro_batches() + world_.size() - 1) / world_.size();
    engine_->set_accumulation_steps(most);
  }

  // Rank 0 is lost, and the next one goes on with its files: the last update
  // may not be in them, nor what was found after it. Or they are to forget what
  // is done again.
  void take_over_record(bool has_update) {
    resumed_from_.clear(); // that has been said
    if (has_update) {
      looked_after_ = std::min(looked_after_, engine_->global_step() - 1);
    }
    together(world_, [&] {
      if (world_.rank() != 0) {
        return;
      }
      options_.resume = true;
      record_ = std::make_unique<RunRecord>(
          config_,
          options_,
          open_output(options_),
          engine_->global_step() - (has_update ? 1 : 0));
      introduce();
      if (has_update) {
        record_->add(*last_update_);
      }
    });
  }

  static std::string numbers_of(const std::vector<int>& ranks) {
    std::string numbers;
    for (const int rank : ranks) {
      numbers += c10::str(numbers.empty() ? "" : ", ", rank);
    }
    return c10::str(ranks.size() == 1 ? "rank " : "ranks ", numbers);
  }

  static std::string describe(const Recovery& recovery) {
    const std::string rest = c10::str(
        base::counted(recovery.num_left, "rank"),
        recovery.num_left == 1 ? " goes" : " go",
        " on after ",
        std::ceil(recovery.seconds * 1000),
        " ms");
    const std::string joined = recovery.joined.empty()
        ? ""
        : c10::str("joined   ", numbers_of(recovery.joined));
    if (recovery.ranks.empty()) {
      return c10::str(joined, " after step ", recovery.step, "; ", rest);
    }
    return c10::str(
        "lost     ",
        numbers_of(recovery.ranks),
        " after step ",
        recovery.step,
        recovery.loaded ? c10::str(
                              "; back to step ",
                              recovery.loaded->step,
                              ", ",
                              recovery.loaded->path,
                              "; ")
            : recovery.is_round_abandoned
            ? std::string(", whose next one is run again; ")
            : std::string(", whose next one was completed; "),
        joined.empty() ? "" : joined + "; ",
        rest);
  }

  // ---- what is left behind -----------------------------------------------

  void save(const std::string& name) {
    const Span span(Activity::save);
    const std::string folder = options_.out + "/" + name;
    together(world_, [&] {
      if (record_ != nullptr) {
        base::make_folders(folder);
        task_->write_model_files(folder);
      }
    });
    try {
      engine_->export_safetensors(folder + "/model.safetensors");
    } catch (const IoError& error) {
      if (record_ == nullptr) { // rank 0 writes, and says what is wrong
        throw FailedElsewhere(error.what());
      }
      throw;
    }
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
    if (record_ == nullptr) {
      return;
    }
    record_->begin(
        {.model = task_->describe_model(),
         .data = task_->describe_data(),
         .notes = task_->notes(),
         .num_parameters = count_parameters_,
         .num_ranks = world_.size(),
         .num_threads = at::get_num_threads(),
         .stage = config_.zero.zero_optimization.stage,
         .shared_memory = config_.zero.libzero.shared_memory,
         .sizes = sizes_,
         .sample_name = task_->sample_name(),
         .num_steps = num_steps_,
         .num_epochs = epoch_of(num_steps_),
         .report_every = config_.train.report_every,
         .memory = engine_->memory()});
    if (!resumed_from_.empty()) {
      record_->note(engine_->global_step(), "resumed  from " + resumed_from_);
    }
  }

  void conclude(const std::string& how) {
    if (record_ != nullptr) {
      record_->end(
          {.how = how,
           .step = engine_->global_step(),
           .last = results_.last,
           .best = results_.best,
           .best_step = results_.best_step});
    }
  }

  int64_t steps_of_epochs() const {
    const double samples = config_.train.epochs.value_or(1) *
        static_cast<double>(task_->num_training_samples());
    return std::max<int64_t>(
        1,
        static_cast<int64_t>(
            std::ceil(samples / static_cast<double>(sizes_.train))));
  }

  double epoch_after(int64_t samples) const {
    return static_cast<double>(position_ + samples) /
        static_cast<double>(task_->num_training_samples());
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
  std::optional<StopRequest> stop_; // since there is a run to stop
  bool stopped_ = false;

  int64_t num_backwards_ = 0; // of this step
  double waited_ = 0; // seconds, in the last step
  double communicated_ = 0;
  int64_t resident_ = 0; // bytes
  std::optional<UpdateRecord> last_update_;
  int64_t looked_after_ = 0; // the last step after which all was done
  int64_t recorded_evaluation_ = -1; // the step of the last one
  int64_t num_shares_; // of a round, each of sizes_.accumulation batches
  size_t num_recoveries_ = 0; // that this run has taken notice of
  bool is_new_ = false; // in place of a lost rank, and does not know enough yet

  KeptResults results_;

  int64_t position_ = 0; // samples that were trained on
  RunCheckpoints checkpoints_;
  std::string resumed_from_; // empty: nobody asked

  std::optional<Sampler> sampler_;
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

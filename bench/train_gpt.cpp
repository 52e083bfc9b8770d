// Trains a GPT on random tokens and tells what a step takes: seconds, and
// memory of the machine and of each rank. peers/train_gpt.py does the same with
// other engines, on the same weights and tokens.
//
//   zero run -n 2 build/bin/train_gpt --config zero.json --tokens 64
#include <ATen/Parallel.h>
#include <torch/nn.h>
#include <torch/utils.h>
#include <zero/zero.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "gpt.h"

namespace zero::bench {
namespace {

constexpr auto kRollup = "/proc/self/smaps_rollup";

struct Options {
  GptOptions model;
  std::string config;
  std::optional<int64_t> batch;
  int64_t tokens = 64;
  int64_t batches = 0;
  int steps = 20;
  int warmup = 5;
  int threads = 1;
  bool compute_only = false;
  std::string json;
};

struct Measured {
  std::vector<double> losses; // by step: the mean over ranks and micro-batches
  std::vector<double> norms;
  std::vector<double> seconds; // by step after the warm-up: the slowest rank's
  // Of all ranks, per step after the warm-up. A machine that is shared changes
  // it less than the time.
  double cpu_seconds = 0;
  // Of all ranks, between backward and update. What files have of it depends on
  // who else has mapped them.
  int64_t pss = 0;
  int64_t pss_file = 0;
  std::vector<int64_t> peak_rss; // by rank
  std::vector<MemoryAccount> memory; // by rank
};

// The number of bytes in the line of a file in /proc that begins with `key`.
int64_t kilobyte_field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t kilobytes = 0;
    if (word == key && file >> kilobytes) {
      return kilobytes * 1024;
    }
  }
  throw IoError(
      std::string("no ") + key + " in " + path +
      ". Fix: use a kernel that has it, Linux 5.9 or newer");
}

// What each rank has, in rank order.
std::vector<int64_t> from_all(const World& world, int64_t value) {
  at::Tensor values = at::zeros({world.size()}, at::kLong);
  values[world.rank()] = value;
  world.communicator().all_reduce(values).wait();
  const auto* begin = values.const_data_ptr<int64_t>();
  return {begin, begin + world.size()};
}

int64_t sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

std::vector<double> over_ranks(
    const World& world,
    const std::vector<double>& values,
    ReduceOp op) {
  at::Tensor tensor = at::tensor(values, at::kDouble);
  world.communicator().all_reduce(tensor, op).wait();
  const auto* begin = tensor.const_data_ptr<double>();
  return {begin, begin + tensor.numel()};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

class Training {
 public:
  Training(const World& world, const Options& options, const Config& config)
      : world_(world),
        options_(options),
        accumulation_(config.batch_sizes(world.size()).accumulation),
        batch_(options.batch.value_or(config.batch_sizes(world.size()).micro)),
        model_(make_model(options.model)),
        // One that has nothing to do has tensors' memory handled all the same.
        engine_(
            world,
            options.compute_only ? std::shared_ptr<torch::nn::Module>(
                                       torch::nn::Linear(1, 1).ptr())
                                 : model_.ptr(),
            config) {}

  Measured run() {
    Measured result;
    std::clock_t cpu_start = 0;
    for (int step = 0; step < options_.steps; ++step) {
      if (step == options_.warmup) {
        cpu_start = std::clock();
      }
      world_.barrier(); // a step begins together, or it would time the last one
      const auto start = std::chrono::steady_clock::now();
      double loss_sum = 0;
      const auto micro_batch = [&](int64_t micro_step) {
        const at::Tensor loss = loss_of(step * accumulation_ + micro_step);
        loss_sum = loss.item<double>() + (micro_step == 0 ? 0 : loss_sum);
        return loss;
      };
      const auto done = options_.compute_only ? compute(micro_batch)
                                              : engine_.run(micro_batch);
      const std::chrono::duration<double> spent =
          std::chrono::steady_clock::now() - start;
      result.losses.push_back(loss_sum / static_cast<double>(accumulation_));
      result.norms.push_back(done.grad_norm);
      if (step >= options_.warmup) {
        result.seconds.push_back(spent.count());
      }
    }
    const auto cpu = static_cast<double>(std::clock() - cpu_start) /
        CLOCKS_PER_SEC / (options_.steps - options_.warmup);
    result.cpu_seconds = over_ranks(world_, {cpu}, ReduceOp::sum)[0];
    result.losses = over_ranks(world_, result.losses, ReduceOp::mean);
    result.seconds = over_ranks(world_, result.seconds, ReduceOp::max);
    if (!options_.compute_only) {
      measure_memory(result);
    }
    return result;
  }

  int64_t num_parameters() const {
    int64_t sum = 0;
    for (const auto& parameter : model_->parameters()) {
      sum += parameter.numel();
    }
    return sum;
  }

 private:
  static Gpt make_model(const GptOptions& options) {
    torch::manual_seed(42);
    return Gpt(options);
  }

  // What no engine could do without: nothing is exchanged or updated.
  template <class MicroBatch>
  StepResult compute(const MicroBatch& micro_batch) {
    for (int64_t micro_step = 0; micro_step < accumulation_; ++micro_step) {
      micro_batch(micro_step).backward();
    }
    model_->zero_grad();
    return {};
  }

  at::Tensor loss_of(int64_t number) {
    if (options_.batches > 0) {
      number %= options_.batches;
    }
    torch::manual_seed(static_cast<uint64_t>(1000 * number + world_.rank()));
    return model_->loss(at::randint(
        0,
        options_.model.vocabulary,
        {batch_, options_.tokens + 1},
        at::kLong));
  }

  // One round more, stopped where gradients and all else are there.
  void measure_memory(Measured& result) {
    for (int64_t micro_step = 0; micro_step < accumulation_; ++micro_step) {
      engine_.backward(loss_of(options_.steps * accumulation_ + micro_step));
      if (micro_step + 1 < accumulation_) {
        engine_.step();
      }
    }
    world_.barrier();
    const auto pss = kilobyte_field(kRollup, "Pss:");
    const auto pss_file = kilobyte_field(kRollup, "Pss_File:");
    world_.barrier();
    const MemoryAccount account = engine_.memory();
    engine_.step();
    result.pss = sum(from_all(world_, pss));
    result.pss_file = sum(from_all(world_, pss_file));
    result.peak_rss =
        from_all(world_, kilobyte_field("/proc/self/status", "VmHWM:"));
    result.memory.resize(static_cast<size_t>(world_.size()));
    for (const auto field :
         {&MemoryAccount::parameters,
          &MemoryAccount::gathered,
          &MemoryAccount::gathered_peak,
          &MemoryAccount::gradients,
          &MemoryAccount::optimizer,
          &MemoryAccount::buffers,
          &MemoryAccount::spilled}) {
      const auto values = from_all(world_, account.*field);
      for (size_t rank = 0; rank < values.size(); ++rank) {
        result.memory[rank].*field = values[rank];
      }
    }
  }

  World world_;
  Options options_;
  int64_t accumulation_;
  int64_t batch_;
  Gpt model_;
  Engine engine_;
};

nlohmann::json to_json(const Measured& measured) {
  nlohmann::json memory = nlohmann::json::array();
  for (const auto& account : measured.memory) {
    memory.push_back(
        {{"parameters", account.parameters},
         {"gathered", account.gathered},
         {"gathered_peak", account.gathered_peak},
         {"gradients", account.gradients},
         {"optimizer", account.optimizer},
         {"buffers", account.buffers},
         {"spilled", account.spilled}});
  }
  return {
      {"losses", measured.losses},
      {"norms", measured.norms},
      {"seconds", measured.seconds},
      {"median_seconds", median(measured.seconds)},
      {"cpu_seconds", measured.cpu_seconds},
      {"pss", measured.pss},
      {"pss_file", measured.pss_file},
      {"peak_rss", measured.peak_rss},
      {"memory", memory}};
}

void print(const Measured& measured) {
  constexpr double kMega = 1e6;
  for (size_t step = 0; step < measured.losses.size(); ++step) {
    std::printf("step %zu: loss %.7f\n", step, measured.losses[step]);
  }
  std::printf(
      "median step: %.4f s\nCPU of all ranks: %.4f s per step\nPSS of all ranks: %.1f MB, of files %.1f MB\n",
      median(measured.seconds),
      measured.cpu_seconds,
      static_cast<double>(measured.pss) / kMega,
      static_cast<double>(measured.pss_file) / kMega);
  for (size_t rank = 0; rank < measured.memory.size(); ++rank) {
    const auto& account = measured.memory[rank];
    std::printf(
        "rank %zu: peak RSS %.1f MB; parameters %.1f, gathered %.1f (peak "
        "%.1f), gradients %.1f, optimizer %.1f, buffers %.1f, spilled %.1f MB\n",
        rank,
        static_cast<double>(measured.peak_rss[rank]) / kMega,
        static_cast<double>(account.parameters) / kMega,
        static_cast<double>(account.gathered) / kMega,
        static_cast<double>(account.gathered_peak) / kMega,
        static_cast<double>(account.gradients) / kMega,
        static_cast<double>(account.optimizer) / kMega,
        static_cast<double>(account.buffers) / kMega,
        static_cast<double>(account.spilled) / kMega);
  }
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--config", options.config, "The engine's JSON file")
      ->required();
  app.add_option("--d-model", options.model.d_model, "Width")
      ->capture_default_str();
  app.add_option("--layers", options.model.layers, "Layers")
      ->capture_default_str();
  app.add_option("--heads", options.model.heads, "Heads")
      ->capture_default_str();
  app.add_option("--vocabulary", options.model.vocabulary, "Tokens there are")
      ->capture_default_str();
  app.add_option(
      "--batch",
      options.batch,
      "Sequences of a micro-batch and rank; the file's size if not given");
  app.add_option("--tokens", options.tokens, "Length of a sequence")
      ->capture_default_str();
  app.add_option(
         "--batches",
         options.batches,
         "Different batches, used over and over; 0: all are different")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Updates")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "Steps that are not timed")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", options.threads, "Threads of a rank")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag(
      "--compute-only",
      options.compute_only,
      "Forward and backward of each rank, without the engine");
  app.add_option("--json", options.json, "Write the results to this file");
}

int run(int argc, char** argv) {
  CLI::App app("Trains a GPT on random tokens and measures it");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.warmup >= options.steps) {
    std::fprintf(stderr, "--warmup leaves no step to time. Fix: --steps\n");
    return 2;
  }
  options.model.length = options.tokens;
  at::set_num_threads(options.threads);

  const World world = init();
  Training training(world, options, Config::from_file(options.config));
  const auto measured = training.run();
  if (world.rank() != 0) {
    return 0;
  }
  std::printf("%lld parameters\n", (long long)training.num_parameters());
  print(measured);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << to_json(measured).dump(1) << '\n';
    if (!file.flush()) {
      throw IoError(
          "cannot write " + options.json + ". Fix: give --json another place");
    }
  }
  return 0;
}

} // namespace
} // namespace zero::bench

int main(int argc, char** argv) {
  try {
    return zero::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// `zero bench`: measures how fast this machine does what training needs.
#include <sched.h>
#include <zero/local.h>
#include <zero/world.h>

#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/bench/adam.h"
#include "cli/bench/collectives.h"
#include "cli/commands.h"
#include "comm/environment.h"
#include "launch/run.h"

namespace zero::cli {

namespace {

constexpr const char* kBenchFooter = R"(Example:
  zero bench collectives -n 2 --bytes 8,67108864 --json

Each row: backend, operation, ranks, bytes of the full unsharded buffer, median
seconds of the slowest rank, bytes over seconds. Each rank keeps to a core of its
own, if there are enough. The rows of memcpy are plain
copies that all ranks make at once, per rank. Operations take turns, so that all
of them meet the same noise. Tensors are float32, of a size that divides among the
ranks. They lie in windows, where ranks
read each other's memory in place; --ordinary-memory measures any other tensor,
which is copied once more on its way.

Under mpirun it measures the ranks that are there, also over several hosts
(backend mpi):
  mpirun -n 2 --host a,b --bind-to none zero bench collectives --ordinary-memory)";

struct Options {
  CollectivesBench bench{
      .backend = "shm",
      .bytes = {8, 65536, 1048576, 67108864}};
  int ranks = 2;
  bool json = false;
};

void print_row(const BenchRow& row, bool json) {
  if (json) {
    // In the order that people read, which a plain json object would not keep.
    nlohmann::ordered_json line;
    line["backend"] = row.backend;
    line["op"] = row.op;
    line["ranks"] = row.ranks;
    line["bytes"] = row.bytes;
    line["seconds"] = row.seconds;
    line["gigabytes_per_second"] = row.gigabytes_per_second();
    std::cout << line.dump() << std::endl;
    return;
  }
  std::cout << std::left << std::setw(8) << row.backend << std::setw(16)
            << row.op << std::right << std::setw(6) << row.ranks
            << std::setw(12) << row.bytes << std::fixed << std::setprecision(2)
            << std::setw(14) << row.seconds * 1e6 << " us" << std::setw(9)
            << row.gigabytes_per_second() << " GB/s" << std::endl;
}

// CLI11's own checks name the largest number there is.
std::string check_above_zero(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && *end == '\0' && std::isfinite(value);
  return is_number && value > 0
      ? ""
      : c10::str("expected a number above 0, got \"", text, "\"");
}

std::string check_bytes(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  const bool is_number = !text.empty() && *end == '\0' && value >= 0;
  return is_number && value % 4 == 0
      ? ""
      : c10::str(
            "expected bytes of float32, a multiple of 4, got \"", text, "\"");
}

// This program again, as each of the ranks.
int start_ranks(const Options& options) {
  std::string bytes;
  for (const int64_t size : options.bench.bytes) {
    bytes += c10::str(bytes.empty() ? "" : ",", size);
  }
  launch::RunOptions run;
  run.num_ranks = options.ranks;
  run.own_program = true;
  run.command = {
      "/proc/self/exe",
      "bench",
      "collectives",
      "--bytes",
      bytes,
      "--seconds",
      c10::str(options.bench.seconds_per_size)};
  if (options.json) {
    run.command.emplace_back("--json");
  }
  if (options.bench.ordinary_memory) {
    run.command.emplace_back("--ordinary-memory");
  }
  return launch::run(run);
}

// A core for each rank, as far as there are any: what is measured is how ranks
// talk, not where the system happens to put them. Threads that this one starts
// later stay there too.
void take_a_core(int rank, int num_ranks) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
      CPU_COUNT(&allowed) < num_ranks) {
    return;
  }
  int nth = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && nth++ == rank) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      ::sched_setaffinity(0, sizeof(one), &one);
    }
  }
}

int run_collectives(const Options& options) {
  const auto lookup = [](const char* name) { return std::getenv(name); };
  const auto place = comm::read_environment(lookup);
  if (options.bench.backend == "shm" &&
      place.launcher == comm::Launcher::none) {
    return start_ranks(options);
  }
  const auto report = [&](const BenchRow& row) {
    print_row(row, options.json);
  };
  if (options.bench.backend == "local") {
    run_threads(options.ranks, [&](World world) {
      take_a_core(world.rank(), world.size());
      bench_collectives(world, options.bench, report);
    });
  } else {
    take_a_core(place.rank, place.size);
    World world = init();
    CollectivesBench bench = options.bench;
    if (world.num_nodes() > 1) {
      bench.backend = "mpi";
    }
    bench_collectives(world, bench, report);
  }
  return 0;
}

void print_adam_row(const AdamBenchRow& row, bool json) {
  if (json) {
    nlohmann::ordered_json line;
    line["op"] = row.op;
    line["bytes"] = row.bytes;
    line["seconds"] = row.seconds;
    line["gigabytes_per_second"] = row.gigabytes_per_second();
    std::cout << line.dump() << std::endl;
    return;
  }
  std::cout << std::left << std::setw(16) << row.op << std::right << std::fixed
            << std::setprecision(2) << std::setw(12) << row.seconds * 1e3
            << " ms" << std::setw(9) << row.gigabytes_per_second() << " GB/s"
            << std::endl;
}

void add_adam_command(CLI::App& bench, int& exit_code) {
  struct AdamOptions {
    AdamBench bench;
    bool json = false;
  };
  auto options = std::make_shared<AdamOptions>();
  auto* command = bench.add_subcommand(
      "adam", "How fast parameters are updated, beside what memory allows");
  command
      ->add_option(
          "--parameters",
          options->bench.numel,
          "How many, 100 million if not given")
      ->check(check_above_zero)
      ->type_name("N");
  command
      ->add_option("--rounds", options->bench.rounds, "Of each, 5 if not given")
      ->check(check_above_zero)
      ->type_name("N");
  command->add_flag("--json", options->json, "Print a JSON object per row");
  command->footer(
      "Example:\n  zero bench adam --parameters 10000000\n\n"
      "triad and triad_streamed are plain arithmetic on as much memory, with and\n"
      "without reading what is overwritten: what memory allows. torch_adam is\n"
      "torch's own fused AdamW on the same tensors.");
  command->callback([&exit_code, options] {
    bench_adam(options->bench, [&](const AdamBenchRow& row) {
      print_adam_row(row, options->json);
    });
    exit_code = 0;
  });
}

} // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto* bench = app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  bench->footer("Example:\n  zero bench collectives -n 2");
  auto* command = bench->add_subcommand(
      "collectives", "How fast ranks talk, beside plain copies of memory");
  add_adam_command(*bench, exit_code);
  auto options = std::make_shared<Options>();
  command
      ->add_option(
          "-n,--ranks", options->ranks, "How many ranks, 2 if not given")
      ->type_name("N");
  command
      ->add_option(
          "--bytes", options->bench.bytes, "Sizes, separated by commas")
      ->delimiter(',')
      ->check(check_bytes)
      ->type_name("LIST");
  command
      ->add_option(
          "--seconds",
          options->bench.seconds_per_size,
          "How long to measure each size, 1 if not given")
      ->check(check_above_zero)
      ->type_name("SECONDS");
  command
      ->add_option(
          "--backend",
          options->bench.backend,
          "shm: ranks are processes (the default); local: they are threads")
      ->check(CLI::IsMember({"shm", "local"}))
      ->type_name("NAME");
  command->add_flag(
      "--ordinary-memory",
      options->bench.ordinary_memory,
      "Measure tensors that are not in windows");
  command->add_flag("--json", options->json, "Print a JSON object per row");
  command->footer(kBenchFooter);
  command->callback(
      [&exit_code, options] { exit_code = run_collectives(*options); });
}

} // namespace zero::cli

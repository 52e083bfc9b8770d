// `zero train`: trains a model from one file.
#include <zero/world.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/on_loss.h"
#include "cli/terminal.h"
#include "comm/roster.h"
#include "launch/run.h"
#include "tasks/output_folder.h"
#include "tasks/run_record.h"
#include "tasks/together.h"
#include "tasks/trainer.h"

namespace zero::cli {

namespace {

constexpr const char* kTrainFooter = R"(Example:
  zero train gpt.json -n 2 --set train.steps=500 --out runs/first

FILE is JSON: DeepSpeed's keys for the optimizer, the schedule, the batch and
ZeRO's stage, and three sections of the trainer's own, "model", "data" and
"train". docs/trainer.md lists them, examples/train has files to begin with.

DIR gets metrics.jsonl, config.json, run.json, report.html, a folder for
TensorBoard, and the model: model/ as it is at the end, best/ as it was when the
evaluation was best; checkpoints/, to go on from with --resume. Without --out it
is runs/NAME-1, or the next free number.

Without -n the process joins the world it was started in (zero run, torchrun
--no-python, mpirun, srun), or is the only rank. --on-loss is that of zero run.

Ctrl-C or SIGTERM, at any rank, ends the run after the step, with a checkpoint; a
second one kills it. SIGUSR1 asks for a checkpoint.)";

constexpr double kGraceSeconds = 120; // for the step, and for writing
// After rank 0 has said what is wrong.
constexpr std::chrono::seconds kTimeToBeEnded(2);

struct TrainArguments {
  std::string file;
  int ranks = 0;
  launch::OnLoss on_loss = launch::OnLoss::stop;
  std::vector<std::string> settings;
  tasks::TrainOptions options;
  bool print_config = false;
};

std::vector<std::string> training_command(const TrainArguments& arguments) {
  std::vector<std::string> command{
      std::filesystem::read_symlink("/proc/self/exe").string(),
      "train",
      arguments.file,
      "--out",
      arguments.options.out};
  for (const std::string& setting : arguments.settings) {
    command.insert(command.end(), {"--set", setting});
  }
  if (arguments.options.overwrite) {
    command.emplace_back("--overwrite");
  }
  if (arguments.options.resume) {
    command.emplace_back("--resume");
  }
  if (arguments.options.trace) {
    command.emplace_back("--trace");
  }
  return command;
}

// All that can be found wrong is, before a process is started.
int start_ranks(TrainArguments& arguments) {
  if (arguments.options.out.empty()) {
    arguments.options.out = tasks::next_output_folder(arguments.file);
  }
  const bool is_new = !std::filesystem::exists(arguments.options.out);
  { const auto check = tasks::open_output(arguments.options); }
  pass_terminal_on();
  launch::RunOptions run;
  run.num_ranks = arguments.ranks;
  run.command = training_command(arguments);
  run.on_loss = arguments.on_loss;
  run.grace_seconds = kGraceSeconds;
  run.own_program = true;
  run.outlives_reader = true;
  const int exit_code = launch::run(run);
  if (is_new) {
    std::error_code ignored; // it is not empty, then
    std::filesystem::remove(arguments.options.out, ignored);
  }
  tasks::end_unended_run(
      arguments.options.out,
      exit_code == 0
          ? "without its end: the rank that wrote this down was lost"
          : c10::str("failed: its processes ended with code ", exit_code));
  return exit_code;
}

int train_as_rank(
    const TrainArguments& arguments,
    const tasks::TrainConfig& config) {
  // Whoever looked on may stop doing so.
  std::signal(SIGPIPE, SIG_IGN);
  const World world = init();
  try {
    tasks::TrainOptions options = arguments.options;
    options.config_path = arguments.file;
    options.terminal_fd = world.rank() == 0 ? inherited_terminal() : -1;
    const bool is_whole = tasks::train(world, config, options);
    return is_whole ? 0 : 130;
  } catch (const tasks::FailedElsewhere&) {
    return tasks::wait_for_the_end(world);
  } catch (const NonfiniteError&) { // alike on all ranks: one says it
    if (world.rank() != 0) {
      return tasks::wait_for_the_end(world);
    }
    throw;
  } catch (const ConfigError&) { // mostly alike, too, without their talking
    if (world.rank() != 0) {
      std::this_thread::sleep_for(kTimeToBeEnded);
    }
    throw;
  } catch (const PeerLost&) {
    return 1; // it has said why itself, or who started it says what killed it
  }
}

} // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("train", "Train a model from one file");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("FILE", arguments->file, "The configuration, JSON")
      ->required();
  auto* ranks =
      command
          ->add_option(
              "-n",
              arguments->ranks,
              c10::str("How many ranks to start, 1 to ", comm::kMaxRanks))
          ->type_name("N")
          ->check(CLI::Range(1, comm::kMaxRanks));
  // Else whoever started the ranks decides.
  add_on_loss(*command, arguments->on_loss)->needs(ranks);
  command
      ->add_option(
          "--set",
          arguments->settings,
          "A value to use instead of the file's, such as train.steps=10")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  auto* out = command
                  ->add_option(
                      "--out", arguments->options.out, "The folder for results")
                  ->type_name("DIR")
                  ->check(not_empty());
  auto* overwrite = command->add_flag(
      "--overwrite",
      arguments->options.overwrite,
      "Replace the run that is in DIR");
  command
      ->add_flag(
          "--resume",
          arguments->options.resume,
          "Go on from the newest checkpoint in DIR, with any number of ranks; "
          "begin if there is none")
      ->needs(out)
      ->excludes(overwrite);
  command->add_flag(
      "--trace",
      arguments->options.trace,
      "Keep what every rank did when, in DIR/trace.json (opens in Perfetto)");
  command->add_flag(
      "--print-config",
      arguments->print_config,
      "Print every value and where it is from, and end");
  command->footer(kTrainFooter);
  command->callback([&, arguments] {
    const auto config = tasks::TrainConfig::from_file(
        arguments->file, arguments->settings, arguments->ranks);
    if (arguments->print_config) {
      std::cout << config.explain();
    } else if (arguments->ranks > 0) {
      exit_code = start_ranks(*arguments);
    } else {
      exit_code = train_as_rank(*arguments, config);
    }
  });
}

} // namespace zero::cli

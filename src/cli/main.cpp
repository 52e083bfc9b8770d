// The program `zero`.
#include <zero/version.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/commands.h"

namespace {

constexpr int kUsageError = 2;

int complain(const std::string& message, int exit_code) {
  std::cerr << "zero: " << message << '\n';
  return exit_code;
}

std::string unknown_command(
    const CLI::App& app,
    const std::string& path,
    const std::string& word) {
  const std::string similar = zero::cli::similar_command(app, word);
  return c10::str(
      "unknown command \"",
      word,
      "\"",
      similar.empty() ? "" : c10::str("; did you mean ", similar, "?"),
      " (",
      path,
      " --help lists all)");
}

int run(std::vector<std::string> arguments) {
  CLI::App app("Train libtorch models with ZeRO.", "zero");
  app.set_version_flag("--version", "zero " ZERO_VERSION);
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n  zero train gpt.json -n 2\n  zero run -n 4 ./train\n\n"
      "zero COMMAND --help says more.");

  int exit_code = 0;
  std::vector<std::string> program;
  zero::cli::add_run_command(app, program, exit_code);
  zero::cli::add_train_command(app, exit_code);
  zero::cli::add_generate_command(app, exit_code);
  zero::cli::add_compare_command(app);
  zero::cli::add_data_command(app);
  zero::cli::add_ckpt_command(app, exit_code);
  zero::cli::add_bench_command(app, exit_code);
  zero::cli::add_doctor_command(app, exit_code);
  zero::cli::add_completion_command(app); // last: it knows all the others

  if (arguments.empty()) {
    std::cerr << app.help();
    return kUsageError;
  }
  const CLI::App* command = &app;
  std::string path = "zero"; // and the commands that were given
  for (const auto& word : arguments) {
    if (zero::cli::has_command(*command, word)) {
      command = command->get_subcommand(word);
      path += " " + word;
    } else if (
        zero::cli::has_commands(*command) &&
        (!word.starts_with("-") || word == "--")) {
      return complain(unknown_command(*command, path, word), kUsageError);
    } else {
      break;
    }
  }
  if (path == "zero run") {
    std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    program = zero::cli::split_program(*command, rest);
    arguments.resize(1);
    arguments.insert(arguments.end(), rest.begin(), rest.end());
  }

  try {
    // CLI11 takes them last one first.
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::Success& success) { // --help, --version
    exit_code = app.exit(success);
  } catch (const CLI::ParseError& error) {
    return complain(
        c10::str(error.what(), " (see ", path, " --help)"), kUsageError);
  }
  if (!std::cout.flush()) {
    return complain("output was lost: it could not be written", 1);
  }
  return exit_code;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const zero::ConfigError& error) {
    return complain(error.what(), kUsageError);
  } catch (const std::exception& error) {
    return complain(zero::base::message_of(error), 1);
  }
}

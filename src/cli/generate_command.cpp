// `zero generate`: goes on with a text.
#include <unistd.h>
#include <zero/world.h>

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/file_io.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "comm/roster.h"
#include "launch/run.h"
#include "tasks/generator.h"
#include "tasks/together.h"

namespace zero::cli {

namespace {

constexpr const char* kGenerateFooter = R"(Example:
  zero generate runs/gpt-1 --prompt "ROMEO:" --tokens 200 --temperature 0.8

DIR is the folder of a run of zero train, whose best model is taken, or a model
folder of Hugging Face with GPT-2's architecture (config.json, model.safetensors,
vocab.json, merges.txt). Text is written as it is generated. The same seed gives
the same text, on any number of ranks. With -n the parameters are partitioned
among so many ranks.)";

struct GenerateArguments {
  std::string folder;
  std::string prompt;
  models::GenerateOptions options;
  int ranks = 0;
};

std::vector<std::string> generating_command(
    const GenerateArguments& arguments) {
  const auto& options = arguments.options;
  return {
      std::filesystem::read_symlink("/proc/self/exe").string(),
      "generate",
      arguments.folder,
      "--prompt=" + arguments.prompt,
      c10::str("--tokens=", options.num_tokens),
      c10::str("--temperature=", options.temperature),
      c10::str("--top-k=", options.top_k),
      c10::str("--top-p=", options.top_p),
      c10::str("--seed=", options.seed)};
}

int generate_as_rank(const GenerateArguments& arguments) {
  const World world = init();
  const int terminal = inherited_terminal();
  const int out = terminal >= 0 ? terminal : STDOUT_FILENO;
  try {
    tasks::generate_text(
        world,
        arguments.folder,
        arguments.prompt,
        arguments.options,
        [&](std::string_view text) {
          if (const int error = base::write_all(out, text); error != 0) {
            throw IoError(
                base::system_message("the text was lost", "write", error));
          }
        });
    return 0;
  } catch (const tasks::FailedElsewhere&) {
    return tasks::wait_for_the_end(world);
  }
}

} // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("generate", "Go on with a text");
  auto arguments = std::make_shared<GenerateArguments>();
  auto& options = arguments->options;
  command->add_option("DIR", arguments->folder, "A run, or a model folder")
      ->required();
  command->add_option("--prompt", arguments->prompt, "What to go on with")
      ->type_name("TEXT")
      ->required();
  command->add_option("--tokens", options.num_tokens, "How many, 256")
      ->type_name("N");
  command
      ->add_option(
          "--temperature",
          options.temperature,
          "Below 1 the likely becomes likelier; 0 takes the likeliest; 1")
      ->type_name("T");
  command
      ->add_option(
          "--top-k", options.top_k, "Choose among the likeliest K; 0: all")
      ->type_name("K");
  command
      ->add_option(
          "--top-p",
          options.top_p,
          "Choose among the likeliest that have P together; 1: all")
      ->type_name("P");
  command->add_option("--seed", options.seed, "Of chance, 0")->type_name("N");
  command->add_option("-n", arguments->ranks, "How many ranks to start")
      ->type_name("N")
      ->check(CLI::Range(1, comm::kMaxRanks));
  command->footer(kGenerateFooter);
  command->callback([&, arguments] {
    models::check(arguments->options);
    tasks::model_folder(arguments->folder);
    if (arguments->prompt.empty()) {
      throw ConfigError(
          "the prompt is empty. Fix: give a text to go on with, --prompt");
    }
    if (arguments->ranks == 0) {
      exit_code = generate_as_rank(*arguments);
      return;
    }
    pass_terminal_on();
    launch::RunOptions run;
    run.num_ranks = arguments->ranks;
    run.command = generating_command(*arguments);
    run.own_program = true;
    exit_code = launch::run(run);
  });
}

} // namespace zero::cli

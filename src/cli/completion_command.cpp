// `zero completion`: prints what makes a shell complete this program's
// commands and options. It is made of the program's own list of them, so it is
// never out of date.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace zero::cli {

namespace {

constexpr const char* kCompletionFooter = R"(Examples:
  zero completion bash > /etc/bash_completion.d/zero
  source <(zero completion zsh)
  zero completion fish > ~/.config/fish/completions/zero.fish)";

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
    for (const std::string& name : option->get_snames()) {
      names.push_back("-" + name);
    }
  }
  return names;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// What an option may be, if that is a list.
std::string choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name(); // "TEXT:{shm,local}"
  const size_t begin = type.find('{');
  const size_t end = type.find('}', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) {
    return {};
  }
  std::string words = type.substr(begin + 1, end - begin - 1);
  std::ranges::replace(words, ',', ' ');
  return words;
}

bool is_positional(const CLI::Option& option) {
  return option.get_lnames().empty() && option.get_snames().empty();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

// The words that can follow a command: those within it, and its options.
std::string words_after(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* inner : commands_of(command)) {
    words.push_back(inner->get_name());
  }
  for (const CLI::Option* option : command.get_options()) {
    if (is_positional(*option) && !choices_of(*option).empty()) {
      words.push_back(choices_of(*option));
    }
  }
  for (const std::string& option : options_of(command)) {
    words.push_back(option);
  }
  return joined(words);
}

// For bash: sets the words by the one before.
std::string choose_words(const CLI::App& command) {
  std::string cases;
  for (const CLI::Option* option : command.get_options()) {
    const std::string choices = choices_of(*option);
    if (!is_positional(*option) && !choices.empty()) {
      cases += " --" + option->get_lnames().front() + ") words=\"" + choices +
          "\" ;;";
    }
  }
  const std::string otherwise = "words=\"" + words_after(command) + "\"";
  return cases.empty()
      ? otherwise
      : "case $previous in" + cases + " *) " + otherwise + " ;; esac";
}

std::string bash_script(const CLI::App& app) {
  std::string script =
      "_zero() {\n"
      "  local words current=${COMP_WORDS[COMP_CWORD]}\n"
      "  local previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  case \"${COMP_WORDS[*]:1:COMP_CWORD-1}\" in\n";
  for (const CLI::App* command : commands_of(app)) {
    for (const CLI::App* inner : commands_of(*command)) {
      script += "    " + std::string("\"") + command->get_name() + " " +
          inner->get_name() + "\"*) " + choose_words(*inner) + " ;;\n";
    }
    script +=
        "    " + command->get_name() + "*) " + choose_words(*command) + " ;;\n";
  }
  script += "    *) words=\"" + words_after(app) +
      "\" ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}\n"
      // Where nothing fits, files do.
      "complete -o default -F _zero zero\n";
  return script;
}

std::string zsh_script(const CLI::App& app) {
  return "autoload -U +X bashcompinit && bashcompinit\n" + bash_script(app);
}

std::string fish_script(const CLI::App& app) {
  std::string script;
  for (const CLI::App* command : commands_of(app)) {
    script += "complete -c zero -n __fish_use_subcommand -a " +
        command->get_name() + " -d '" + command->get_description() + "'\n";
    for (const CLI::Option* option : command->get_options()) {
      std::string line = "complete -c zero -n '__fish_seen_subcommand_from " +
          command->get_name() + "'";
      for (const std::string& name : option->get_lnames()) {
        line += " -l " + name;
      }
      for (const std::string& name : option->get_snames()) {
        line += " -s " + name;
      }
      const std::string choices = choices_of(*option);
      if (!choices.empty()) {
        line += " -x -a '" + choices + "'";
      }
      if (!is_positional(*option) || !choices.empty()) {
        script += line + "\n";
      }
    }
  }
  return script;
}

} // namespace

void add_completion_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "completion", "Print what completes commands in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(kCompletionFooter);
  command->callback([&app, shell] {
    std::cout
        << (*shell == "bash"      ? bash_script(app)
                : *shell == "zsh" ? zsh_script(app)
                                  : fish_script(app));
  });
}

} // namespace zero::cli

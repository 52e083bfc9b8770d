#include "cli/command_line.h"

#include <algorithm>

#include "config/nearest.h"

namespace zero::cli {

namespace {

// Whether an option is followed by its value, as in "-n 2"; not in "-n2" or
// "--grace=2".
bool value_follows(const CLI::App& command, const std::string& argument) {
  const bool attached = argument.starts_with("--")
      ? argument.find('=') != std::string::npos
      : argument.size() > 2;
  const CLI::Option* option = command.get_option_no_throw(argument);
  return !attached && option != nullptr && option->get_items_expected_max() > 0;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

} // namespace

std::vector<std::string> split_program(
    const CLI::App& command,
    std::vector<std::string>& arguments) {
  auto begin = arguments.begin();
  while (begin != arguments.end() && begin->size() > 1 &&
         begin->front() == '-' && *begin != "--") {
    const bool skip = value_follows(command, *begin);
    ++begin;
    if (skip && begin != arguments.end()) {
      ++begin;
    }
  }
  const auto mark = begin;
  if (begin != arguments.end() && *begin == "--") {
    ++begin;
  }
  std::vector<std::string> program(begin, arguments.end());
  arguments.erase(mark, arguments.end());
  if (!program.empty()) {
    arguments.emplace_back("PROGRAM");
  }
  return program;
}

CLI::Validator not_empty() {
  return {
      [](const std::string& value) -> std::string {
        return value.empty() ? "expected a name, got nothing" : "";
      },
      "",
      "not empty"};
}

bool has_commands(const CLI::App& app) {
  return !command_names(app).empty();
}

bool has_command(const CLI::App& app, const std::string& word) {
  return std::ranges::count(command_names(app), word) > 0;
}

std::string similar_command(const CLI::App& app, const std::string& word) {
  return config::nearest(word, command_names(app)).value_or("");
}

} // namespace zero::cli

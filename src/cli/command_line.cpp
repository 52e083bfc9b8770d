#include "cli/command_line.h"

#include <algorithm>
#include <numeric>

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

// How many characters have to be changed, added or left out.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
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

bool has_commands(const CLI::App& app) {
  return !command_names(app).empty();
}

bool has_command(const CLI::App& app, const std::string& word) {
  return std::ranges::count(command_names(app), word) > 0;
}

std::string similar_command(const CLI::App& app, const std::string& word) {
  std::string best;
  size_t best_distance = 3; // two slips of the finger, not another word
  for (const auto& name : command_names(app)) {
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance && distance < name.size()) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

} // namespace zero::cli

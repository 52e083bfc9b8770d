// Defines what CLI11 leaves open in a command line: where the program of `zero
// run` begins, whose arguments belong to nobody else, and what a mistyped
// command may have meant.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace zero::cli {

// Cuts PROGRAM and all that follows off the arguments of a command and returns
// it. In its place one word stays, so that CLI11 knows that there is one. CLI11
// itself would read options and lists out of the program's arguments.
std::vector<std::string> split_program(
    const CLI::App& command,
    std::vector<std::string>& arguments);

// Refuses an option that is there with nothing behind it.
CLI::Validator not_empty();

bool has_commands(const CLI::App& app);
bool has_command(const CLI::App& app, const std::string& word);

// The name of a command of the app that looks like `word`; empty if none does.
std::string similar_command(const CLI::App& app, const std::string& word);

} // namespace zero::cli

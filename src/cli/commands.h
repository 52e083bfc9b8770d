// Declares the commands of the program `zero`, one file each. Every function
// adds its command to the app; when the user calls for it, it runs while CLI11
// parses and leaves what the program shall exit with in `exit_code`.
//
//   add_doctor_command(app, exit_code);
//   app.parse(arguments);
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace zero::cli {

// `program` is what split_program() has cut off the command line.
void add_run_command(
    CLI::App& app,
    const std::vector<std::string>& program,
    int& exit_code);

void add_train_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_compare_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_ckpt_command(CLI::App& app, int& exit_code);
void add_completion_command(CLI::App& app);
void add_bench_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);

} // namespace zero::cli

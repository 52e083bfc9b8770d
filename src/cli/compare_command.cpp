// `zero compare`: one report over several runs.
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "cli/commands.h"
#include "report/html_report.h"
#include "report/run_log.h"

namespace zero::cli {

namespace {

constexpr const char* kCompareFooter = R"(Example:
  zero compare runs/gpt-1 runs/gpt-2 --out compare.html

The page has the curves of all runs in the same charts, their facts side by side,
and what differs in their configurations. A run may still be going on.)";

} // namespace

void add_compare_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("compare", "Show several runs in one report");
  auto folders = std::make_shared<std::vector<std::string>>();
  auto out = std::make_shared<std::string>("compare.html");
  command->add_option("RUN", *folders, "Folders of runs of zero train")
      ->required();
  command->add_option("--out", *out, "The page to write, compare.html")
      ->type_name("FILE");
  command->footer(kCompareFooter);
  command->callback([folders, out] {
    std::vector<report::RunLog> runs;
    std::string problems;
    for (const std::string& folder : *folders) {
      try {
        runs.push_back(report::read_run(folder));
      } catch (const Error& error) {
        problems += c10::str(problems.empty() ? "" : "\n", error.what());
      }
    }
    if (!problems.empty()) {
      throw ConfigError(problems);
    }
    for (const std::string& folder : *folders) {
      for (const char* name : {"/metrics.jsonl", "/config.json", "/run.json"}) {
        std::error_code ignored; // one of them is not there
        if (std::filesystem::equivalent(*out, folder + name, ignored)) {
          throw ConfigError(c10::str(
              "'",
              *out,
              "' is a file of a run that is to be shown. Fix: name another "
              "one with --out"));
        }
      }
    }
    report::write_html_report(runs, *out);
    std::cout << "report   " << *out << '\n';
  });
}

} // namespace zero::cli

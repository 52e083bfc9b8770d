// `zero compare`: one report over several runs.
#include <iostream>
#include <memory>

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
    for (const std::string& folder : *folders) {
      runs.push_back(report::read_run(folder));
    }
    report::write_html_report(runs, *out);
    std::cout << "report   " << *out << '\n';
  });
}

} // namespace zero::cli

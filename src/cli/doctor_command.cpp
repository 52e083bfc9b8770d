// `zero doctor`: what is installed, what works here, what would be faster.
#include <iostream>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/doctor/finding.h"

namespace zero::cli {

namespace {

const char* name_of(Mark mark) {
  switch (mark) {
    case Mark::ok:
      return "ok     ";
    case Mark::slow:
      return "slow   ";
    case Mark::missing:
      break;
  }
  return "missing";
}

// Returns whether nothing that is required is missing.
bool report(const std::string& title, const std::vector<Finding>& findings) {
  bool good = true;
  std::cout << title << '\n';
  for (const auto& finding : findings) {
    std::cout << "  " << name_of(finding.mark) << "  " << finding.what;
    if (!finding.remedy.empty()) {
      std::cout << " (" << finding.remedy << ")";
    }
    std::cout << '\n';
    good &= finding.mark != Mark::missing || !finding.required;
  }
  return good;
}

int run_doctor() {
  bool good = report("Software", examine_software());
  good &= report("Machine", examine_machine());
  good &= report("System", examine_system());
  std::cout << (good ? "One can train here."
                     : "One cannot train here: something required is missing.")
            << std::endl;
  return good ? 0 : 1;
}

} // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "doctor", "Say what is installed, what works, what would be faster");
  command->footer("Exit code: 0 if one can train here, else 1.");
  command->callback([&exit_code] { exit_code = run_doctor(); });
}

} // namespace zero::cli

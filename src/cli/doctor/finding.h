// Defines Finding: one line of what `zero doctor` says, and the functions that
// find them, each about one side of the machine.
#pragma once

#include <string>
#include <vector>

namespace zero::cli {

enum class Mark {
  ok,
  slow, // works, but not as fast as it could
  missing, // does not work, or is not there
};

struct Finding {
  Mark mark = Mark::ok;
  std::string what;
  std::string remedy = ""; // empty if there is nothing to do
  bool required = false; // nobody can train where it is missing
};

// libzero, libtorch, compilers, launchers and communication libraries.
std::vector<Finding> examine_software();

// Processor, cores, memory, container, limits and variables.
std::vector<Finding> examine_machine();

// What ranks need of the system to talk to each other, each tried out.
std::vector<Finding> examine_system();

} // namespace zero::cli

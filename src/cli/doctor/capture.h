// Defines capture(): what a short-lived program prints.
#pragma once

#include <string>
#include <vector>

namespace zero::cli {

// The first line that the program, sought in PATH, prints; empty if it cannot
// be run, fails, or takes longer than 10 seconds. Its errors are not shown.
std::string capture(std::vector<std::string> command);

} // namespace zero::cli

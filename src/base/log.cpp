#include "base/log.h"

#include <c10/util/StringUtil.h>
#include <unistd.h>

namespace zero::base {

std::string rank_prefix(int rank, int size) {
  return c10::str("[rank ", rank, "/", size, "] ");
}

void log_warning(int rank, int size, const std::string& message) {
  log_info(rank, size, "warning: " + message);
}

void log_info(int rank, int size, const std::string& message) {
  const std::string line = c10::str(rank_prefix(rank, size), message, "\n");
  // A log that cannot be written is no reason to stop training.
  [[maybe_unused]] auto written =
      ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace zero::base

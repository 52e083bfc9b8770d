#include "launch/rank_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/cores.h"
#include "base/error.h"

namespace zero::launch {

std::vector<std::string> rank_environment(
    int rank,
    int num_ranks,
    base::SegmentAddress roster,
    std::optional<int> newcomer) {
  std::vector<std::string> environment{
      c10::str("ZERO_RANK=", rank),
      c10::str("ZERO_SIZE=", num_ranks),
      c10::str("ZERO_ROSTER=", roster.pid, ":", roster.fd)};
  if (newcomer) {
    environment.push_back(c10::str("ZERO_NEWCOMER=", *newcomer));
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    // Without this every rank would start as many threads as there are cores.
    const int threads = std::max(1, base::available_cores() / num_ranks);
    environment.push_back(c10::str("OMP_NUM_THREADS=", threads));
  }
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    // `zero run` inside a rank starts a world of its own.
    const bool replaced = text.starts_with("ZERO_RANK=") ||
        text.starts_with("ZERO_SIZE=") || text.starts_with("ZERO_ROSTER=") ||
        text.starts_with("ZERO_NEWCOMER=");
    if (!replaced) {
      environment.emplace_back(text);
    }
  }
  return environment;
}

} // namespace zero::launch

// Defines StopRequest: turns Ctrl-C and SIGTERM into a wish that the run looks
// at between steps. A second one, later, ends the process as ever. What is
// ignored, as SIGHUP is under nohup, stays so.
#pragma once

#include <csignal>
#include <utility>
#include <vector>

namespace zero::tasks {

class StopRequest {
 public:
  StopRequest();
  ~StopRequest(); // signals do what they did before
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool is_made() const;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

} // namespace zero::tasks

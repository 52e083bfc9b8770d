// Defines StopRequest: turns Ctrl-C and SIGTERM into a wish that the run looks
// at between steps. The second one ends the process as ever.
#pragma once

namespace zero::tasks {

class StopRequest {
 public:
  StopRequest();
  ~StopRequest(); // signals do what they do by default again
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool is_made() const;
};

} // namespace zero::tasks

// Defines SaveRequest: turns SIGUSR1 into a wish for a checkpoint, which the
// run looks at between steps.
#pragma once

#include <csignal>

namespace zero::tasks {

class SaveRequest {
 public:
  SaveRequest();
  ~SaveRequest(); // the signal does what it did before
  SaveRequest(const SaveRequest&) = delete;
  SaveRequest& operator=(const SaveRequest&) = delete;

  // Whether there is one; it is taken.
  bool take();

 private:
  struct sigaction before_ = {};
};

} // namespace zero::tasks

// Defines where checkpoints are: a folder with one folder for each of them,
// which gets its name when it is complete.
//
//   checkpoint/save-000007-step-120/manifest.json
//   checkpoint/save-000007-step-120/rank-00000.safetensors
//   checkpoint/.save-step-140.k2Xz1a/...          not complete
//
// Which one is the newest is seen from the numbers in their names: there is no
// pointer that could be wrong. Steps would not tell: who went back to an older
// checkpoint and trained on from there wants that training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace zero::checkpoint {

struct FoundCheckpoint {
  std::string path;
  int64_t number = 0; // each save has the next one
  int64_t step = 0;
};

// Those in a folder that are complete by their names, the newest first. If the
// folder is a checkpoint itself, that one. Throws: IoError.
std::vector<FoundCheckpoint> find_checkpoints(const std::string& folder);

// A checkpoint that is being made, by one process of all that write into it.
class NewCheckpoint {
 public:
  // Removes what saves that came to nothing have left. Throws: IoError.
  NewCheckpoint(std::string folder, int64_t step);
  ~NewCheckpoint(); // without commit() nothing is left
  NewCheckpoint(const NewCheckpoint&) = delete;
  NewCheckpoint& operator=(const NewCheckpoint&) = delete;

  // Where its files belong until then.
  const std::string& path() const {
    return temporary_;
  }

  // All files are there, and safe: gives it its name. Returns that.
  std::string commit();

 private:
  std::string folder_;
  int64_t step_;
  std::string temporary_;
  base::UniqueFd lock_; // of the temporary folder
};

// Removes what saves that came to nothing have left, and removals that were
// interrupted; not what somebody is at work on.
void remove_leftovers(const std::string& folder);

// Removes all but the newest ones. Throws: IoError.
void remove_old_checkpoints(const std::string& folder, int keep);

} // namespace zero::checkpoint

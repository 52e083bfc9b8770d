// Defines OutputFolder: where a run leaves what it makes, and nobody else's.
//
//   OutputFolder folder("runs/first", /*overwrite=*/false);
//   folder.remove_old_run();
//   folder.path("metrics.jsonl");
//
// It is locked while it lives, so that two runs cannot mix their files.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace zero::tasks {

class OutputFolder {
 public:
  // Makes the folder. Throws: ConfigError if it has a run already, unless that
  // is to be overwritten, or files of the same names that are no run's, or
  // another run is at work in it; IoError.
  OutputFolder(std::string folder, bool overwrite);

  void remove_old_run() const;

  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  const std::string& folder() const {
    return folder_;
  }

 private:
  void lock();
  void refuse_what_is_there(bool overwrite) const;

  std::string folder_;
  base::UniqueFd lock_;
};

// "runs/NAME-1", or the first number that is free; `name` is that of the
// configuration's file.
std::string next_output_folder(const std::string& config_path);

} // namespace zero::tasks

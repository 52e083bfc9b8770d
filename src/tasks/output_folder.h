// Defines OutputFolder: where a run leaves what it makes, and nobody else's.
//
//   OutputFolder folder("runs/first", IfThereIsARun::refuse);
//   folder.remove_old_run();
//   folder.path("metrics.jsonl");
//
// It is locked while it lives, so that two runs cannot mix their files.
#pragma once

#include <cstddef>
#include <string>

#include "base/unique_fd.h"

namespace zero::tasks {

inline constexpr size_t kMaxFactsBytes = size_t{1} << 20; // of run.json

// Held by one process at a time; the system frees it if that dies.
class FolderLock {
 public:
  // Throws: ConfigError if another process has it; IoError.
  explicit FolderLock(const std::string& folder);
  FolderLock(FolderLock&&) = default;
  ~FolderLock(); // leaves no file

 private:
  void open_and_lock(const std::string& folder);

  std::string path_;
  base::UniqueFd file_;
};

enum class IfThereIsARun { refuse, overwrite, go_on };

class OutputFolder {
 public:
  // Makes the folder. Throws: ConfigError if it has a run already that is to be
  // refused, or files of the same names that are no run's, or another run is at
  // work in it; IoError.
  OutputFolder(std::string folder, IfThereIsARun what_then);

  void remove_old_run() const;

  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  const std::string& folder() const {
    return folder_;
  }

 private:
  void refuse_what_is_there(IfThereIsARun what_then) const;

  std::string folder_;
  FolderLock lock_;
};

// "runs/NAME-1", or the first number that is free; `name` is that of the
// configuration's file.
std::string next_output_folder(const std::string& config_path);

} // namespace zero::tasks

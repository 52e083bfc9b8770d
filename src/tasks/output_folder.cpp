#include "tasks/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"

namespace zero::tasks {

namespace {

// All that a run makes.
constexpr std::initializer_list<const char*> kRunNames{
    "metrics.jsonl",
    "config.json",
    "run.json",
    "report.html",
    "trace.json",
    "model",
    "best",
    "checkpoints",
    "tensorboard"};

// Without slashes at its end, so that paths in it have one.
std::string made(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) {
    folder.pop_back();
  }
  base::make_folders(folder);
  return folder;
}

// Every run says in it how it ended, or that it has not.
bool is_of_a_run(const std::string& path) {
  return std::filesystem::is_regular_file(path) &&
      base::read_file(path, "'" + path + "'", kMaxFactsBytes)
          .find("\"ended\"") != std::string::npos;
}

} // namespace

FolderLock::FolderLock(const std::string& folder)
    : path_(folder + "/.libzero-run.lock") {
  // The one before may have removed the file between our opening and locking
  // it: then it is no lock any more.
  struct stat locked = {};
  struct stat named = {};
  do {
    open_and_lock(folder);
    ::fstat(file_.get(), &locked);
  } while (::stat(path_.c_str(), &named) != 0 || named.st_ino != locked.st_ino);
}

FolderLock::~FolderLock() {
  if (file_.valid()) {
    ::unlink(path_.c_str());
  }
}

void FolderLock::open_and_lock(const std::string& folder) {
  base::UniqueFd file(
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.valid()) {
    throw IoError(base::system_message(
        c10::str(
            "cannot write into the output folder '",
            folder,
            "'. Fix: name a place that you may write to, with --out"),
        "open",
        errno));
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw ConfigError(c10::str(
          "another run is at work in the output folder '",
          folder,
          "'. Fix: wait for it, or name another folder with --out"));
    }
    throw IoError(base::system_message("cannot lock " + path_, "flock", errno));
  }
  file_ = std::move(file);
}

OutputFolder::OutputFolder(std::string folder, IfThereIsARun what_then)
    : folder_(made(std::move(folder))), lock_(folder_) {
  refuse_what_is_there(what_then);
}

// What is not known to be a run's is never removed.
void OutputFolder::refuse_what_is_there(IfThereIsARun what_then) const {
  const bool has_run = is_of_a_run(path("run.json"));
  if (has_run && what_then == IfThereIsARun::refuse) {
    throw ConfigError(c10::str(
        "the output folder '",
        folder_,
        "' has a run already. Fix: name another one with --out, add --resume "
        "to go on with that run, or --overwrite to lose it"));
  }
  for (const char* name : kRunNames) {
    if (!has_run && std::filesystem::exists(path(name))) {
      throw ConfigError(c10::str(
          "the output folder '",
          folder_,
          "' has '",
          name,
          "', which is not a run's. Fix: name another folder with --out"));
    }
  }
}

void OutputFolder::remove_old_run() const {
  for (const char* name : kRunNames) {
    // It says whose the others are, and is replaced.
    if (std::string_view(name) != "run.json") {
      std::filesystem::remove_all(path(name));
    }
  }
}

std::string next_output_folder(const std::string& config_path) {
  const std::string stem = std::filesystem::path(config_path).stem().string();
  int number = 1;
  std::string folder;
  do {
    folder = c10::str("runs/", stem, "-", number++);
  } while (std::filesystem::exists(folder));
  return folder;
}

} // namespace zero::tasks

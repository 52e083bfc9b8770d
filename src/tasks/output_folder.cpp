#include "tasks/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace zero::tasks {

namespace {

constexpr const char* kLockName = ".lock";

// All that a run makes.
constexpr std::initializer_list<const char*> kRunNames{
    "metrics.jsonl",
    "config.json",
    "run.json",
    "report.html",
    "trace.json",
    "model",
    "best",
    "tensorboard"};

} // namespace

OutputFolder::OutputFolder(std::string folder, bool overwrite)
    : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw IoError(c10::str(
        "cannot make the output folder '",
        folder_,
        "': ",
        error.message(),
        ". Fix: name a place that you may write to, with --out"));
  }
  lock();
  refuse_what_is_there(overwrite);
}

// What is not known to be a run's is never removed.
void OutputFolder::refuse_what_is_there(bool overwrite) const {
  const bool has_run = std::filesystem::exists(path("metrics.jsonl"));
  if (has_run && !overwrite) {
    throw ConfigError(c10::str(
        "the output folder '",
        folder_,
        "' has a run already. Fix: name another one with --out, or add "
        "--overwrite to lose that run"));
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

void OutputFolder::lock() {
  const std::string name = path(kLockName);
  lock_ =
      base::UniqueFd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock_.valid()) {
    throw IoError(base::system_message(
        c10::str(
            "cannot write into the output folder '",
            folder_,
            "'. Fix: name a place that you may write to, with --out"),
        "open",
        errno));
  }
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw ConfigError(c10::str(
          "another run is at work in the output folder '",
          folder_,
          "'. Fix: wait for it, or name another folder with --out"));
    }
    throw IoError(base::system_message("cannot lock " + name, "flock", errno));
  }
}

void OutputFolder::remove_old_run() const {
  for (const char* name : kRunNames) {
    std::filesystem::remove_all(path(name));
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

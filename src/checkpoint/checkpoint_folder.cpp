#include "checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/file_io.h"
#include "base/quantity.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "save-";
constexpr std::string_view kHiddenPrefix = ".save-";
constexpr std::string_view kStep = "-step-";
constexpr size_t kDigits = 6; // so that names sort as numbers do

std::string name_of(int64_t number, int64_t step) {
  return c10::str(kPrefix, base::zero_padded(number, kDigits), kStep, step);
}

// Nothing if it is no name of a checkpoint.
std::optional<FoundCheckpoint> parse_name(std::string_view name) {
  const size_t step = name.find(kStep);
  if (!name.starts_with(kPrefix) || step == std::string_view::npos) {
    return std::nullopt;
  }
  FoundCheckpoint found;
  const char* begin = name.data();
  std::from_chars(begin + kPrefix.size(), begin + step, found.number);
  std::from_chars(begin + step + kStep.size(), begin + name.size(), found.step);
  if (found.number < 0 || found.step < 0 ||
      name != name_of(found.number, found.step)) {
    return std::nullopt;
  }
  return found;
}

[[noreturn]] void fail(const std::string& folder, const char* call, int error) {
  throw IoError(base::system_message(
      c10::str(
          "cannot save into '",
          folder,
          "'. Fix: name a folder that is writable and has room"),
      call,
      error));
}

int call_or_fail(const std::string& folder, const char* call, int result) {
  if (result < 0) {
    fail(folder, call, errno);
  }
  return result;
}

base::UniqueFd open_folder(const std::string& path) {
  return base::UniqueFd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void sync_folder(const std::string& path) {
  const base::UniqueFd folder = open_folder(path);
  if (const int error = base::failpoint("file.call"); error != 0) {
    fail(path, "fsync", error);
  }
  if (!folder.valid() || ::fsync(folder.get()) != 0) {
    fail(path, "fsync", errno);
  }
}

} // namespace

std::vector<FoundCheckpoint> find_checkpoints(const std::string& folder) {
  std::error_code error;
  if (fs::exists(fs::path(folder) / kManifestName, error)) {
    const fs::path path = fs::path(folder).lexically_normal();
    const auto name =
        path.has_filename() ? path.filename() : path.parent_path().filename();
    FoundCheckpoint found =
        parse_name(name.string()).value_or(FoundCheckpoint{});
    found.path = folder;
    return {found};
  }
  std::vector<FoundCheckpoint> all;
  auto entries = fs::directory_iterator(folder, error);
  if (error == std::errc::no_such_file_or_directory) {
    return all;
  }
  if (error) {
    throw IoError(base::system_message(
        c10::str("cannot read the folder '", folder, "'"),
        "opendir",
        error.value()));
  }
  for (const auto& entry : entries) {
    if (auto found = parse_name(entry.path().filename().string())) {
      found->path = entry.path().string();
      all.push_back(*std::move(found));
    }
  }
  std::ranges::sort(all, [](const auto& a, const auto& b) {
    return std::tie(a.number, a.step) > std::tie(b.number, b.step);
  });
  return all;
}

// Whoever makes one holds its lock for as long as it lives.
void remove_leftovers(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kHiddenPrefix)) {
      continue;
    }
    const base::UniqueFd lock = open_folder(entry.path().string());
    if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

NewCheckpoint::NewCheckpoint(std::string folder, int64_t step)
    : folder_(std::move(folder)), step_(step) {
  base::make_folders(folder_);
  remove_leftovers(folder_);
  temporary_ = base::make_temporary_folder(
      c10::str(folder_, "/", kHiddenPrefix, "step-", step));
  lock_ = open_folder(temporary_);
  call_or_fail(folder_, "flock", ::flock(lock_.get(), LOCK_EX | LOCK_NB));
}

NewCheckpoint::~NewCheckpoint() {
  if (!temporary_.empty()) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

std::string NewCheckpoint::commit() {
  sync_folder(temporary_);
  for (;;) {
    const auto others = find_checkpoints(folder_);
    const int64_t number = others.empty() ? 1 : others.front().number + 1;
    std::string path = folder_ + '/' + name_of(number, step_);
    if (const int error = base::failpoint("file.call"); error != 0) {
      fail(folder_, "rename", error);
    }
    // Another run may have been faster, and stays.
    if (::renameat2(
            AT_FDCWD,
            temporary_.c_str(),
            AT_FDCWD,
            path.c_str(),
            RENAME_NOREPLACE) == 0) {
      temporary_.clear();
      sync_folder(folder_);
      return path;
    }
    if (errno != EEXIST) {
      fail(folder_, "rename", errno);
    }
  }
}

void remove_old_checkpoints(const std::string& folder, int keep) {
  auto all = find_checkpoints(folder);
  if (keep <= 0 || all.size() <= static_cast<size_t>(keep)) {
    return;
  }
  for (auto i = static_cast<size_t>(keep); i < all.size(); ++i) {
    // Under a name that says that it is not complete any more.
    const std::string name = c10::str(
        folder, "/.", fs::path(all[i].path).filename().string(), ".removed");
    if (base::failpoint("file.call") == 0 &&
        ::rename(all[i].path.c_str(), name.c_str()) == 0) {
      std::error_code ignored;
      fs::remove_all(name, ignored);
    }
  }
}

} // namespace zero::checkpoint

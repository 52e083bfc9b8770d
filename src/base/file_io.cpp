#include "base/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/failpoint.h"

namespace zero::base {

namespace {

[[noreturn]] void fail_to_read(const std::string& title, const char* call) {
  const int error = errno;
  throw IoError(c10::str(
      system_message("cannot read " + title, call, error),
      ". Fix: give the path of a readable file"));
}

// Of a path for mkostemp() and mkdtemp(), which write over the X.
std::string with_free_ending(const std::string& path) {
  return path + '.' + std::string(6, 'X');
}

// What those make is for the owner alone. This is what any other file or folder
// of the user has, of `most`.
mode_t usual_mode(mode_t most) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return most & ~mask;
}

} // namespace

UniqueFd open_to_read(const std::string& path, const std::string& title) {
  // Not waiting for somebody to write, if it is a pipe.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about = {};
  if (!file.valid()) {
    fail_to_read(title, "open");
  }
  if (::fstat(file.get(), &about) != 0) {
    fail_to_read(title, "fstat");
  }
  if (!S_ISREG(about.st_mode)) {
    throw IoError(c10::str(
        "cannot read ",
        title,
        ": it is ",
        S_ISDIR(about.st_mode) ? "a folder" : "no regular file",
        ". Fix: give the path of a readable file"));
  }
  return file;
}

std::string read_file(
    const std::string& path,
    const std::string& title,
    size_t limit) {
  const UniqueFd file = open_to_read(path, title);
  constexpr size_t kBlock = size_t{64} << 10;
  std::string text;
  while (text.size() <= limit) {
    const size_t filled = text.size();
    text.resize(filled + kBlock);
    ssize_t count = -1;
    do {
      count = ::read(file.get(), text.data() + filled, kBlock);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
      fail_to_read(title, "read");
    }
    text.resize(filled + static_cast<size_t>(count));
    if (count == 0) {
      break;
    }
  }
  return text;
}

void make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw IoError(c10::str(
        "cannot make the folder '",
        path,
        "': ",
        error.message(),
        ". Fix: name a place that you may write to"));
  }
}

std::string make_temporary_folder(const std::string& path) {
  std::string made = with_free_ending(path);
  int error = failpoint("file.call");
  if (error == 0 && ::mkdtemp(made.data()) == nullptr) {
    error = errno;
  }
  if (error != 0) {
    throw IoError(system_message(
        c10::str(
            "cannot make a folder in '",
            std::filesystem::absolute(path).parent_path().string(),
            "'. Fix: name one that is writable and has room"),
        "mkdtemp",
        error));
  }
  ::chmod(made.c_str(), usual_mode(0777));
  return made;
}

NewFile::NewFile(std::string path)
    : path_(std::move(path)), temporary_(with_free_ending(path_)) {
  struct stat about = {};
  if (::stat(path_.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) {
    temporary_.clear();
    throw IoError(c10::str(
        "cannot write '",
        path_,
        "': it is no regular file. Fix: name another"));
  }
  const int simulated = failpoint("file.call");
  file_ = simulated == 0 ? UniqueFd(::mkostemp(temporary_.data(), O_CLOEXEC))
                         : UniqueFd();
  if (!file_.valid()) {
    const int error = simulated == 0 ? errno : simulated;
    temporary_.clear();
    fail("mkostemp", error);
  }
  ::fchmod(file_.get(), usual_mode(0666));
}

NewFile::~NewFile() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void NewFile::fail(const char* call, int error) {
  throw IoError(system_message(
      c10::str(
          "cannot write '",
          path_,
          "'. Fix: name a folder that exists, is writable and has room"),
      call,
      error));
}

void NewFile::write(std::string_view bytes) {
  if (const int error = write_all(file_.get(), bytes); error != 0) {
    fail("write", error);
  }
}

void NewFile::overwrite(int64_t offset, std::string_view bytes) {
  const auto end = ::lseek(file_.get(), 0, SEEK_CUR);
  if (end < 0 || ::lseek(file_.get(), offset, SEEK_SET) < 0) {
    fail("lseek", errno);
  }
  write(bytes);
  ::lseek(file_.get(), end, SEEK_SET);
}

void NewFile::commit() {
  if (const int error = failpoint("file.call"); error != 0) {
    fail("fsync", error);
  }
  if (::fsync(file_.get()) != 0) {
    fail("fsync", errno);
  }
  if (const int error = failpoint("file.call"); error != 0) {
    fail("rename", error);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail("rename", errno);
  }
  temporary_.clear();
  // The new name, too, is to survive a loss of power.
  const auto folder = std::filesystem::absolute(path_).parent_path();
  const UniqueFd directory(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) {
    ::fsync(directory.get());
  }
}

void write_file(const std::string& path, std::string_view content) {
  NewFile file(path);
  file.write(content);
  file.commit();
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    if (const int error = failpoint("file.call"); error != 0) {
      return error;
    }
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno;
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

} // namespace zero::base

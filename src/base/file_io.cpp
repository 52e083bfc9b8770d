#include "base/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace zero::base {

std::string read_file(
    const std::string& path,
    const std::string& title,
    size_t limit) {
  const auto fail = [&](const char* call) {
    const int error = errno;
    throw IoError(c10::str(
        system_message("cannot read " + title, call, error),
        ". Fix: give the path of a readable file"));
  };
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    fail("open");
  }
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
      fail("read");
    }
    text.resize(filled + static_cast<size_t>(count));
    if (count == 0) {
      break;
    }
  }
  return text;
}

NewFile::NewFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + '.' + std::string(6, 'X')) {
  file_ = UniqueFd(::mkostemp(temporary_.data(), O_CLOEXEC));
  if (!file_.valid()) {
    const int error = errno;
    temporary_.clear();
    fail("mkostemp", error);
  }
  // Readable as any file the user makes, not only by the owner.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file_.get(), 0666 & ~mask);
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
  if (::fsync(file_.get()) != 0) {
    fail("fsync", errno);
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

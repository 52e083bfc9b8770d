#include "base/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/unique_fd.h"

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

#include "base/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/failpoint.h"

namespace zero::base {

void DirectFile::Free::operator()(std::byte* memory) const {
  std::free(memory); // NOLINT(cppcoreguidelines-no-malloc): aligned
}

DirectFile::DirectFile(std::string path) : path_(std::move(path)) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  if (const int error = failpoint("file.call"); error != 0) {
    fail("open", error);
  }
  file_ = UniqueFd(::open(path_.c_str(), kFlags | O_DIRECT, 0666));
  if (!file_.valid() && errno == EINVAL) { // of a file system in memory
    ::unlink(path_.c_str()); // some have made it all the same
    file_ = UniqueFd(::open(path_.c_str(), kFlags, 0666));
  }
  if (!file_.valid()) {
    fail("open", errno);
  }
  buffer_.reset(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBufferBytes)));
  if (!buffer_) {
    throw std::bad_alloc();
  }
}

void DirectFile::append(const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const size_t count = std::min(bytes, kBufferBytes - filled_);
    std::memcpy(buffer_.get() + filled_, from, count);
    filled_ += count;
    from += count;
    bytes -= count;
    if (filled_ == kBufferBytes) {
      flush();
    }
  }
}

// Up to a multiple of the alignment: what is too much is cut off in the end.
void DirectFile::flush() {
  const size_t padded = (filled_ + kAlignment - 1) / kAlignment * kAlignment;
  std::memset(buffer_.get() + filled_, 0, padded - filled_);
  write(buffer_.get(), padded, written_);
  written_ += static_cast<int64_t>(std::exchange(filled_, 0));
}

void DirectFile::replace_begin(std::string_view bytes) {
  ZERO_CHECK(bytes.size() % kAlignment == 0, "it is not aligned");
  flush();
  for (size_t at = 0; at < bytes.size(); at += kBufferBytes) {
    const auto part = bytes.substr(at, kBufferBytes);
    std::memcpy(buffer_.get(), part.data(), part.size());
    write(buffer_.get(), part.size(), static_cast<int64_t>(at));
  }
}

void DirectFile::finish() {
  if (filled_ > 0) {
    flush();
  }
  if (const int error = failpoint("file.call"); error != 0) {
    fail("ftruncate", error);
  }
  if (::ftruncate(file_.get(), written_) != 0) {
    fail("ftruncate", errno);
  }
  if (const int error = failpoint("file.call"); error != 0) {
    fail("fsync", error);
  }
  if (::fsync(file_.get()) != 0) {
    fail("fsync", errno);
  }
  file_.reset();
}

void DirectFile::write(const std::byte* data, size_t bytes, int64_t offset) {
  while (bytes > 0) {
    if (const int error = failpoint("file.call"); error != 0) {
      fail("pwrite", error);
    }
    const ssize_t count = ::pwrite(file_.get(), data, bytes, offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      fail("pwrite", count < 0 ? errno : ENOSPC);
    }
    data += count;
    offset += count;
    bytes -= static_cast<size_t>(count);
  }
}

void DirectFile::fail(const char* call, int error) const {
  throw IoError(system_message(
      c10::str(
          "cannot write '",
          path_,
          "'. Fix: name a folder that is writable and has room"),
      call,
      error));
}

} // namespace zero::base

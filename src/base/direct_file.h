// Defines DirectFile: a large file that is written once, past the system's
// cache: that would be filled with what nobody reads, and writes to the disk no
// faster than the one page after the other that it finds.
//
//   DirectFile file(path);
//   file.append(data, bytes);        // any number of times
//   file.replace_begin(header);      // what was not known before
//   file.finish();                   // all of it is on the disk
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace zero::base {

class DirectFile {
 public:
  // What a disk takes: sizes and places are multiples of it.
  static constexpr size_t kAlignment = 4096;

  // Makes it; it must not be there. Throws: IoError.
  explicit DirectFile(std::string path);
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  void append(const void* data, size_t bytes);
  // As many bytes as are written already, a multiple of kAlignment.
  void replace_begin(std::string_view bytes);
  void finish();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  static constexpr size_t kBufferBytes = size_t{8} << 20;

  void write(const std::byte* data, size_t bytes, int64_t offset);
  void flush();
  [[noreturn]] void fail(const char* call, int error) const;

  std::string path_;
  UniqueFd file_;
  std::unique_ptr<std::byte[], Free> buffer_;
  size_t filled_ = 0; // of the buffer
  int64_t written_ = 0; // of the file
};

} // namespace zero::base

// Defines reading and writing of whole files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace zero::base {

// Opens a file of data. What is no regular file is refused: a pipe would be
// waited for without end, and others begin nowhere or never end. `title` is how
// a message calls it. Throws: IoError.
UniqueFd open_to_read(const std::string& path, const std::string& title);

// What is in the file; of one longer than `limit`, no more than shows that.
// Throws: IoError.
std::string read_file(
    const std::string& path,
    const std::string& title,
    size_t limit = std::numeric_limits<size_t>::max());

// The folder and those above it, unless they are there. Throws: IoError.
void make_folders(const std::string& path);

// A new folder, called `path`, a dot and six characters: for what gets its own
// name when it is complete. Returns its path. Throws: IoError.
std::string make_temporary_folder(const std::string& path);

// Gives the file its new content at once: whoever reads it, also after a loss
// of power, has the old one or the new one. Throws: IoError.
void write_file(const std::string& path, std::string_view content);

// A file with a name of its own beside `path`, which gets that name when it is
// complete.
class NewFile {
 public:
  // Throws: IoError.
  explicit NewFile(std::string path);
  ~NewFile(); // without commit() nothing is left
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Throws: IoError; nothing is left then.
  void write(std::string_view bytes);
  // What has been written already, from an offset on.
  void overwrite(int64_t offset, std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* call, int error);

  std::string path_;
  std::string temporary_;
  UniqueFd file_;
};

// Writes all of it, however the system divides it. Returns 0, or an errno.
int write_all(int fd, std::string_view bytes);

} // namespace zero::base

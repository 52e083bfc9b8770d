// Defines reading and writing of whole files.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace zero::base {

// What is in the file; of one longer than `limit`, no more than shows that.
// `title` is how a message calls it. Throws: IoError.
std::string read_file(
    const std::string& path,
    const std::string& title,
    size_t limit = std::numeric_limits<size_t>::max());

// Writes all of it, however the system divides it. Returns 0, or an errno.
int write_all(int fd, std::string_view bytes);

} // namespace zero::base

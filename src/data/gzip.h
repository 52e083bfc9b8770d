// Defines how compressed files are read: data sets are often handed out as
// .gz, and need not be unpacked by hand.
//
//   std::string bytes = read_gzip_file(path, "'" + path + "'", limit);
//
// A few bytes can stand for thousands of times as many, so the caller says how
// much is sensible. Memory is taken as bytes come out, not as a file promises
// them.
#pragma once

#include <cstddef>
#include <string>

namespace zero::data {

// What is compressed in the file, also in several parts one after another, as
// `cat a.gz b.gz` makes them. `title` is how a message calls the file.
// Throws: IoError if it cannot be read; CorruptionError if it is cut short or
// something else, its checksums are wrong, or more than `limit` bytes come out.
std::string read_gzip_file(
    const std::string& path,
    const std::string& title,
    size_t limit);

// The same of a file that may also be as it is. What it begins with decides,
// not its name: downloads keep the name when a server unpacks them on the way.
// A file that is not compressed may not begin with the bytes 1f 8b then.
std::string read_maybe_gzip(
    const std::string& path,
    const std::string& title,
    size_t limit);

} // namespace zero::data

// Defines SharedMapping: memory that several processes map. It has no name in
// any file system, so nothing is left when all of them are gone, however they
// ended; and it is sealed, so nobody can cut it short under the others.
//
//   auto mapping = SharedMapping::create("zero-group", bytes);   // one rank
//   auto mapping = SharedMapping::open({pid, fd});               // the others
//
// A process maps a segment once: opening it again gives the same mapping. Ranks
// that are threads of one process therefore share addresses, which is what
// ThreadSanitizer needs to see them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "base/unique_fd.h"

namespace zero::base {

// Where to find a segment: a descriptor of a living process of the same user.
struct SegmentAddress {
  pid_t pid = 0;
  int fd = -1;
};

class SharedMapping {
 public:
  enum class Reserve {
    all, // every page is there when create() returns
    none, // pages come by reserve() or when touched
  };

  // Throws: IoError when the system denies the memory.
  static std::shared_ptr<SharedMapping> create(
      const std::string& name,
      size_t bytes,
      Reserve reserve = Reserve::all);

  // Throws: IoError when the address is not a sealed segment, or not ours.
  static std::shared_ptr<SharedMapping> open(SegmentAddress address);
  static std::shared_ptr<SharedMapping> adopt(UniqueFd fd);

  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const {
    return data_;
  }
  size_t bytes() const {
    return bytes_;
  }
  SegmentAddress address() const;

  // Makes the pages of a range exist, so that touching them later cannot fail.
  // Throws: IoError when there is no memory for them.
  void reserve(size_t offset, size_t bytes);

  // Gives whole pages back; they are zeros when they are touched again.
  void discard(size_t offset, size_t bytes);

  // After this others can no longer open it, and nothing can be reserved or
  // discarded; those who have it keep it.
  void close_address();

 private:
  SharedMapping(UniqueFd fd, std::byte* data, size_t bytes);

  mutable std::mutex mutex_; // of fd_; the memory is its users' business
  UniqueFd fd_;
  std::byte* data_;
  size_t bytes_;
};

} // namespace zero::base

#include "base/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/memory.h"

namespace zero::base {

namespace {

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The segments this process has mapped, by inode.
struct MappingTable {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<SharedMapping>> mappings;
};

MappingTable& mapping_table() {
  static MappingTable table;
  return table;
}

std::byte* map(const UniqueFd& fd, size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    throw IoError(system_message(
        c10::str(
            "cannot map ",
            bytes,
            " bytes of shared memory. Fix: raise the address space limit "
            "(ulimit -v) or use fewer ranks"),
        "mmap",
        errno));
  }
  // Fewer page faults and TLB misses where the system allows it.
  ::madvise(address, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(address);
}

// Asked first: beyond this limit the system kills instead of saying no.
void check_file_limit(size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    throw IoError(c10::str(
        "cannot size shared memory to ",
        bytes,
        " bytes: files are limited to ",
        limit.rlim_cur,
        ". Fix: raise the file size limit (ulimit -f)"));
  }
}

} // namespace

SharedMapping::SharedMapping(UniqueFd fd, std::byte* data, size_t bytes)
    : fd_(std::move(fd)), data_(data), bytes_(bytes) {}

SharedMapping::~SharedMapping() {
  ::munmap(data_, bytes_);
}

std::shared_ptr<SharedMapping> SharedMapping::create(
    const std::string& name,
    size_t bytes,
    Reserve reserve) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    throw IoError(system_message(
        "cannot create shared memory. Fix: allow memfd_create to this process "
        "(a seccomp profile denies it, or there are too many open files)",
        "memfd_create",
        errno));
  }
  check_file_limit(bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throw IoError(system_message(
        c10::str("cannot size shared memory to ", bytes, " bytes"),
        "ftruncate",
        errno));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    throw IoError(system_message("cannot seal shared memory", "fcntl", errno));
  }
  auto mapping = adopt(std::move(fd));
  if (reserve == Reserve::all) {
    mapping->reserve(0, bytes);
  }
  return mapping;
}

std::shared_ptr<SharedMapping> SharedMapping::open(SegmentAddress address) {
  // The kernel allows this to processes of the same user; see proc(5).
  const std::string path = c10::str("/proc/", address.pid, "/fd/", address.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) {
    throw IoError(system_message(
        c10::str(
            "cannot reach the shared memory of process ",
            address.pid,
            errno == EMFILE || errno == ENFILE
                ? ". Fix: raise the limit of open files (ulimit -n)"
                : ". Fix: run all ranks as one user in one PID namespace, with "
                  "/proc mounted"),
        c10::str("open(", path, ")"),
        errno));
  }
  return adopt(std::move(fd));
}

std::shared_ptr<SharedMapping> SharedMapping::adopt(UniqueFd fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || (static_cast<unsigned>(seals) & kSeals) != kSeals ||
      ::fstat(fd.get(), &status) != 0) {
    throw IoError(c10::str(
        "descriptor ",
        fd.get(),
        " is not a sealed segment of libzero. Fix: leave descriptors and "
        "ZERO_ variables of the launcher as they are"));
  }
  auto& table = mapping_table();
  const std::lock_guard lock(table.mutex);
  auto& known = table.mappings[{status.st_dev, status.st_ino}];
  if (auto mapping = known.lock()) {
    return mapping;
  }
  const auto bytes = static_cast<size_t>(status.st_size);
  std::byte* data = map(fd, bytes);
  std::shared_ptr<SharedMapping> mapping(
      new SharedMapping(std::move(fd), data, bytes));
  known = mapping;
  std::erase_if(
      table.mappings, [](const auto& entry) { return entry.second.expired(); });
  return mapping;
}

SegmentAddress SharedMapping::address() const {
  const std::lock_guard lock(mutex_);
  ZERO_CHECK(fd_.valid(), "the segment's address was closed");
  return {::getpid(), fd_.get()};
}

void SharedMapping::reserve(size_t offset, size_t bytes) {
  if (bytes == 0) {
    return;
  }
  check_available_memory(static_cast<int64_t>(bytes));
  check_file_limit(offset + bytes);
  const std::lock_guard lock(mutex_);
  int result = 0;
  do {
    result = ::fallocate(
        fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    const int error = errno;
    const bool full = error == ENOSPC || error == ENOMEM;
    throw IoError(system_message(
        c10::str(
            full ? "no memory for " : "cannot reserve ",
            bytes,
            " bytes of shared memory. Fix: ",
            full ? "free memory, raise the container's memory limit, or use "
                   "fewer ranks"
                 : "allow fallocate to this process"),
        "fallocate",
        error));
  }
}

void SharedMapping::discard(size_t offset, size_t bytes) {
  const std::lock_guard lock(mutex_);
  // What the system does not take back stays ours: memory is all it costs.
  (void)::fallocate(
      fd_.get(),
      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
      static_cast<off_t>(offset),
      static_cast<off_t>(bytes));
}

void SharedMapping::close_address() {
  const std::lock_guard lock(mutex_);
  fd_.reset();
}

} // namespace zero::base

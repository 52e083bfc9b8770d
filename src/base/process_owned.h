// Defines make_process_owned(): an object that only the process that made it
// destroys; and ProcessMark, which tells a process from its children. A child
// made by fork() has a copy of it, but neither its threads nor its place among
// the ranks: destroying the copy would join threads that are not there, and say
// goodbye for the parent. So the copy is left alone.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace zero::base {

// Whether this is still the process that made it. Reads one word of a page that
// the kernel wipes in every child, however it was made; getpid() would ask the
// kernel each time.
class ProcessMark {
 public:
  ProcessMark()
      : page_(static_cast<int*>(::mmap(
            nullptr,
            kBytes,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0))) {
    if (page_ == MAP_FAILED) {
      page_ = nullptr;
      return;
    }
    ::madvise(page_, kBytes, MADV_WIPEONFORK);
    *page_ = 1;
  }
  ~ProcessMark() {
    if (page_ != nullptr) {
      ::munmap(page_, kBytes);
    }
  }
  ProcessMark(const ProcessMark&) = delete;
  ProcessMark& operator=(const ProcessMark&) = delete;

  bool is_here() const {
    return page_ == nullptr ? ::getpid() == owner_ : *page_ == 1;
  }

 private:
  static constexpr size_t kBytes = 4096;
  int* page_; // none if there was no memory for it
  pid_t owner_ = ::getpid();
};

template <class T, class... Arguments>
std::shared_ptr<T> make_process_owned(Arguments&&... arguments) {
  return std::shared_ptr<T>(
      new T(std::forward<Arguments>(arguments)...),
      [owner = ::getpid()](T* object) {
        if (::getpid() == owner) {
          delete object;
        }
      });
}

} // namespace zero::base

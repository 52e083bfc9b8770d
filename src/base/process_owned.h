// Defines make_process_owned(): an object that only the process that made it
// destroys; and ProcessMark, which tells a process from its children. A child
// made by fork() has a copy of it, but neither its threads nor its place among
// the ranks: destroying the copy would join threads that are not there, and say
// goodbye for the parent. So the copy is left alone.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

namespace zero::base {

// Whether this is still the process that made it. Costs nothing, unlike
// getpid(), which asks the kernel.
class ProcessMark {
 public:
  bool is_here() const {
    return made_in_ == generation();
  }

 private:
  // How many forks led to this process since the first mark was made.
  static int generation() {
    static const int registered =
        ::pthread_atfork(nullptr, nullptr, [] { counter.fetch_add(1); });
    return registered == 0 ? counter.load(std::memory_order_relaxed) : 0;
  }
  inline static std::atomic<int> counter = 0;

  int made_in_ = generation();
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

// Defines make_process_owned(): an object that only the process that made it
// destroys. A child made by fork() has a copy of it, but neither its threads
// nor its place among the ranks: destroying the copy would join threads that
// are not there, and say goodbye for the parent. So the copy is left alone.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace zero::base {

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

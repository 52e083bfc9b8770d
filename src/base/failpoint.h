// Defines failpoints: places where a test makes a process fail, by a variable
// of its environment. Without it they cost one load.
//
//   ZERO_FAILPOINT=file.call:kill@17       the 17th time, in any rank
//   ZERO_FAILPOINT=file.call:enospc@3:1    the third time, in rank 1
//
// Those who are started in place of lost ranks are numbered after the ranks.
// Actions are kill, stop and term, as by the signals; and enospc and eio, as if
// the system had answered so. Several are separated by commas.
#pragma once

#include <string_view>

namespace zero::base {

namespace detail {
extern bool has_failpoints;
int hit_failpoint(const char* name);
} // namespace detail

// 0, or the errno that is to be taken for the answer.
inline int failpoint(const char* name) {
  return detail::has_failpoints ? detail::hit_failpoint(name) : 0;
}

// As the variable does, for a process that a test has forked. Requires: it has
// one thread.
void set_failpoints(std::string_view text);

} // namespace zero::base

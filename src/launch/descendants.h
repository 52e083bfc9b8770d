// Defines how every process that came from this one is found and ended, also
// those that left their process group or session, or whose parent is gone.
//
// Note [Nothing is left]
// `zero run` is two processes: the front, which the user started, and its child
// the supervisor, whose children are the ranks. Both are subreapers: a process
// whose parent ends becomes the child of the nearest one above it, whatever it
// did to detach itself. So when the supervisor is killed, the front finds all
// that is left below itself; when the front is killed, the kernel sends the
// supervisor SIGTERM, and all that is left is below the supervisor.
//
// Single-threaded.
#pragma once

#include <sys/types.h>

#include <vector>

namespace zero::launch {

// The processes below this one, without `except` and what is below it.
std::vector<pid_t> descendants(const std::vector<pid_t>& except = {});

// Kills and reaps all of them, and those they start meanwhile. Returns the ones
// that could not be ended: of another user, or stuck in the kernel.
std::vector<pid_t> end_descendants(const std::vector<pid_t>& except = {});

} // namespace zero::launch

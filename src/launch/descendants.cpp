#include "launch/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h> // NOLINT(modernize-deprecated-headers): kill
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace zero::launch {

namespace {

// A process in an uninterruptible system call dies when the call returns, which
// may be never.
constexpr std::chrono::seconds kStuck(10);

// The parent of a process; 0 if it is gone. A zombie counts as a process: only
// its main thread may have ended.
pid_t parent_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 512> text{};
  if (!file.valid() || ::read(file.get(), text.data(), text.size() - 1) <= 0) {
    return 0;
  }
  // "pid (name) state ppid ...", where the name may have any character.
  const char* name_end = std::strrchr(text.data(), ')');
  pid_t parent = 0;
  if (name_end == nullptr ||
      std::sscanf(name_end + 1, " %*c %d", &parent) != 1) {
    return 0;
  }
  return parent;
}

// All processes by their parent.
std::multimap<pid_t, pid_t> process_tree() {
  std::multimap<pid_t, pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(
      ::opendir("/proc"), &::closedir);
  if (!directory) {
    return children;
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    const auto pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid > 0) {
      children.emplace(parent_of(pid), pid);
    }
  }
  return children;
}

void reap() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

} // namespace

std::vector<pid_t> descendants(const std::vector<pid_t>& except) {
  const auto children = process_tree();
  std::vector<pid_t> found{::getpid()};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i]);
    for (auto child = begin; child != end; ++child) {
      if (std::ranges::find(except, child->second) == except.end()) {
        found.push_back(child->second);
      }
    }
  }
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> end_descendants(const std::vector<pid_t>& except) {
  const auto start = base::Clock::now();
  for (auto pause = std::chrono::milliseconds(1);; pause *= 2) {
    reap();
    auto living = descendants(except);
    // Again and again: what is killed may have started others since it was
    // looked for, and those become our children only when it is gone.
    bool progress = false;
    for (const pid_t pid : living) {
      progress |= ::kill(pid, SIGKILL) == 0 || errno == ESRCH;
    }
    if (!progress || base::Clock::now() - start > kStuck) {
      return living;
    }
    pause = std::min(pause, std::chrono::milliseconds(20));
    std::this_thread::sleep_for(pause);
  }
}

} // namespace zero::launch

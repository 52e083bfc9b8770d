#include "launch/oom.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace zero::launch {

namespace {

// The number after `key` in a file of "key number" lines; 0 if there is none.
uint64_t counter(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) {
    if (name == key) {
      return value;
    }
  }
  return 0;
}

} // namespace

OomWatch::OomWatch(std::string root)
    : root_(std::move(root)),
      group_kills_(count_in_group()),
      machine_kills_(count_on_machine()) {}

// A line of /proc/self/cgroup is "0::/path" for version 2, and for version 1
// "7:memory:/path". In a container the path is often that of the machine, and
// the group is mounted at the root.
uint64_t OomWatch::count_in_group() const {
  std::ifstream groups(root_ + "/proc/self/cgroup");
  std::string line;
  uint64_t kills = 0;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const bool version_1 = controllers == "memory";
    if (!version_1 && !controllers.empty()) {
      continue;
    }
    const std::string top =
        c10::str(root_, "/sys/fs/cgroup", version_1 ? "/memory" : "");
    const std::string file = version_1 ? "memory.oom_control" : "memory.events";
    for (const auto& folder : {c10::str(top, group), top}) {
      kills = std::max(kills, counter(c10::str(folder, "/", file), "oom_kill"));
    }
  }
  return kills;
}

uint64_t OomWatch::count_on_machine() const {
  return counter(root_ + "/proc/vmstat", "oom_kill");
}

std::string OomWatch::explain_kill() {
  const bool in_group = count_in_group() > group_kills_;
  const bool on_machine = count_on_machine() > machine_kills_;
  group_kills_ += in_group ? 1 : 0;
  machine_kills_ += on_machine ? 1 : 0;
  if (in_group) {
    return "the kernel's OOM killer ended it: the memory limit of its "
           "container or control group was reached";
  }
  if (on_machine) {
    return "the kernel's OOM killer was at work on this machine meanwhile: "
           "probably memory ran out";
  }
  return "somebody sent it, or the kernel's OOM killer did: see dmesg";
}

} // namespace zero::launch

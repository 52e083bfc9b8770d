#include "launch/oom.h"

#include <fstream>
#include <string>

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

// A line of /proc/self/cgroup is "0::/path" for version 2, and for version 1
// "7:memory:/path". In a container the path is often that of the machine, and
// the group is mounted at the root.
uint64_t count_group_kills() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
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
    const std::string root =
        version_1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const std::string file = version_1 ? "memory.oom_control" : "memory.events";
    const uint64_t kills =
        counter(c10::str(root, group, "/", file), "oom_kill");
    return kills != 0 ? kills : counter(c10::str(root, "/", file), "oom_kill");
  }
  return 0;
}

uint64_t count_machine_kills() {
  return counter("/proc/vmstat", "oom_kill");
}

} // namespace

OomWatch::OomWatch()
    : group_kills_(count_group_kills()),
      machine_kills_(count_machine_kills()) {}

std::string OomWatch::explain_kill() const {
  if (count_group_kills() > group_kills_) {
    return "the kernel's OOM killer ended it: the memory limit of its "
           "container or control group was reached";
  }
  if (count_machine_kills() > machine_kills_) {
    return "the kernel's OOM killer was at work on this machine meanwhile: "
           "probably memory ran out";
  }
  return "somebody sent it, or the kernel's OOM killer did: see dmesg";
}

} // namespace zero::launch

#include "base/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "base/error.h"

namespace zero::base {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The number in a file; `otherwise` if there is none, as in "max".
int64_t read_number(const std::filesystem::path& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// A line "name kilobytes kB" of one of the system's files, in bytes.
int64_t read_line(
    const char* path,
    const std::string& wanted,
    int64_t otherwise) {
  std::ifstream file(path);
  std::string name;
  while (file >> name) {
    int64_t kilobytes = 0;
    if (name == wanted && file >> kilobytes) {
      return kilobytes * 1024;
    }
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return otherwise;
}

int64_t machine_memory() {
  return read_line("/proc/meminfo", "MemAvailable:", kUnlimited);
}

// Where the memory controller of a cgroup version keeps its numbers.
struct Controller {
  std::filesystem::path root;
  const char* limit;
  const char* used;
  const char* reclaimable; // what the kernel takes back when it is needed
};

// The number after `key` in the group's memory.stat.
int64_t read_statistic(
    const std::filesystem::path& group,
    const std::string& key) {
  std::ifstream file(group / "memory.stat");
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == key) {
      return value;
    }
  }
  return 0;
}

// What the limits leave, from this process's own group upwards.
int64_t left_by(const Controller& controller, const std::string& path) {
  int64_t least = kUnlimited;
  auto group = controller.root / path.substr(1);
  for (;; group = group.parent_path()) {
    const int64_t limit = read_number(group / controller.limit, kUnlimited);
    if (limit != kUnlimited) {
      const int64_t used = read_number(group / controller.used, 0) -
          read_statistic(group, controller.reclaimable);
      least = std::min(least, std::max<int64_t>(0, limit - used));
    }
    if (group == controller.root || !group.has_relative_path()) {
      return least;
    }
  }
}

// A line is "0::/path" for version 2, and for version 1 "7:memory:/path".
int64_t container_memory() {
  const Controller version_2{
      "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
  const Controller version_1{
      "/sys/fs/cgroup/memory",
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      "total_inactive_file"};
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  int64_t least = kUnlimited;
  while (std::getline(file, line)) {
    if (line.starts_with("0::/")) {
      least = std::min(least, left_by(version_2, line.substr(3)));
      continue;
    }
    // Several controllers may be joined: "4:cpu,memory:/path".
    const auto path = line.find(":/");
    const auto controllers = line.substr(0, path);
    if (path != line.npos && controllers.ends_with("memory")) {
      least = std::min(least, left_by(version_1, line.substr(path + 1)));
    }
  }
  return least;
}

} // namespace

int64_t available_memory() {
  return std::min(machine_memory(), container_memory());
}

void check_available_memory(int64_t bytes) {
  const int64_t available = available_memory();
  if (bytes > available) {
    throw IoError(c10::str(
        "no memory for ",
        bytes,
        " bytes of shared memory: ",
        available,
        " are available. Fix: free memory, raise the container's memory limit, "
        "or use fewer ranks"));
  }
}

int64_t total_memory() {
  return read_line("/proc/meminfo", "MemTotal:", kUnlimited);
}

int64_t own_memory() {
  return read_line("/proc/self/smaps_rollup", "Pss:", 0);
}

} // namespace zero::base

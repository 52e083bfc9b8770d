#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/cores.h"
#include "base/error.h"
#include "cli/doctor/finding.h"

namespace zero::cli {

namespace {

// What follows "key:" in a file of such lines; empty if the key is not there.
std::string field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) {
      const size_t begin = line.find_first_not_of(" \t", colon + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  }
  return "";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string gibibytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB", bytes / (1 << 30));
  return text;
}

Finding examine_processor() {
  std::string model = field("/proc/cpuinfo", "model name");
  Finding finding{.what = model.empty() ? "processor of unknown model" : model};
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  finding.what += avx512 ? ", AVX-512" : avx2 ? ", AVX2" : ", no AVX2";
  if (!avx2) {
    finding.mark = Mark::slow;
    finding.remedy = "libtorch is made for AVX2; a virtual machine may hide it";
  }
#endif
  return finding;
}

Finding examine_cores() {
  const int available = base::available_cores();
  const long total = ::sysconf(_SC_NPROCESSORS_ONLN);
  Finding finding{
      .what = c10::str(available, " of ", total, " cores are available")};
  if (available < total) {
    finding.mark = Mark::slow;
    finding.remedy =
        "raise the CPU limit of the container, or the affinity (taskset)";
  }
  return finding;
}

// The limit of the control group, in a container usually mounted at the root.
std::optional<double> memory_limit() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::string text = first_line(path);
    const double bytes = std::atof(text.c_str());
    // Version 1 says "no limit" by a number beyond every machine.
    if (bytes > 0 && bytes < 1e18) {
      return bytes;
    }
  }
  return std::nullopt;
}

Finding examine_memory() {
  const double total =
      std::atof(field("/proc/meminfo", "MemTotal").c_str()) * 1024;
  const double available =
      std::atof(field("/proc/meminfo", "MemAvailable").c_str()) * 1024;
  Finding finding{
      .what = c10::str(
          gibibytes(total),
          " of memory, ",
          gibibytes(available),
          " available")};
  const auto limit = memory_limit();
  if (limit && *limit < total) {
    finding.what +=
        c10::str("; the control group is limited to ", gibibytes(*limit));
  }
  if (std::min(available, limit.value_or(total)) < (1 << 30)) {
    finding.mark = Mark::slow;
    finding.remedy = "less than 1 GiB: free memory or raise the limit";
  }
  return finding;
}

Finding examine_container() {
  bool container = std::getenv("container") != nullptr ||
      ::access("/.dockerenv", F_OK) == 0 ||
      ::access("/run/.containerenv", F_OK) == 0;
  std::ifstream groups("/proc/1/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    for (const char* name : {"docker", "kubepods", "containerd", "lxc"}) {
      container |= line.find(name) != std::string::npos;
    }
  }
  return {.what = container ? "in a container" : "not in a container"};
}

Finding examine_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  Finding finding{.what = c10::str(limit.rlim_cur, " open files per process")};
  // A rank holds a few descriptors for each other one, the launcher two.
  if (limit.rlim_cur < 1024) {
    finding.mark = Mark::slow;
    finding.remedy = "enough for few ranks; raise it with ulimit -n 1024";
  }
  return finding;
}

Finding examine_threads() {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (threads == nullptr) {
    return {
        .what = "OMP_NUM_THREADS is not set: zero run shares the cores out"};
  }
  Finding finding{.what = c10::str("OMP_NUM_THREADS=", threads)};
  if (std::atoi(threads) > base::available_cores()) {
    finding.mark = Mark::slow;
    finding.remedy = "more threads than cores; unset it";
  } else {
    finding.what += ": every rank of zero run gets it";
  }
  return finding;
}

} // namespace

std::vector<Finding> examine_machine() {
  return {
      examine_processor(),
      examine_cores(),
      examine_memory(),
      examine_container(),
      examine_open_files(),
      examine_threads()};
}

} // namespace zero::cli

#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace zero::base {

namespace {

// cgroup v2: "max 100000" or "150000 100000", microseconds of each period.
double quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) {
    return INFINITY;
  }
  return std::atof(quota.c_str()) / period;
}

} // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    cores = CPU_COUNT(&set);
  }
  const double limit = std::min<double>(cores, quota_cores());
  return std::max(1, static_cast<int>(std::floor(limit)));
}

} // namespace zero::base

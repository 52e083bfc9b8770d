#include "base/libtorch_version.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <cstdio>
#include <utility>

#include "base/error.h"

namespace zero::base {

namespace {

constexpr std::pair kOldest{2, 6};

// Major and minor number; {-1, -1} if it is no version.
std::pair<int, int> release_of(const std::string& version) {
  int major = -1;
  int minor = -1;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2) {
    return {-1, -1};
  }
  return {major, minor};
}

} // namespace

std::string libtorch_version() {
  // "..., TORCH_VERSION=2.15.0, ..." among the build settings.
  const std::string config = at::show_config();
  const std::string key = "TORCH_VERSION=";
  const auto begin = config.find(key);
  if (begin == std::string::npos) {
    return "unknown";
  }
  const auto start = begin + key.size();
  return config.substr(start, config.find_first_of(", \n", start) - start);
}

std::string libtorch_path() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&at::show_config), &info) == 0 ||
      info.dli_fname == nullptr) {
    return "unknown";
  }
  return info.dli_fname;
}

void require_libtorch() {
  check_libtorch_version(libtorch_version(), TORCH_VERSION);
}

void check_libtorch_version(
    const std::string& loaded,
    const std::string& compiled) {
  const auto release = release_of(loaded);
  if (release < kOldest) {
    throw ConfigError(c10::str(
        "libtorch ",
        loaded,
        " is loaded: expected ",
        kOldest.first,
        ".",
        kOldest.second,
        " or newer. Fix: install a newer torch and build libzero again"));
  }
  if (release != release_of(compiled)) {
    throw ConfigError(c10::str(
        "libtorch ",
        loaded,
        " is loaded, but libzero was compiled for ",
        compiled,
        ". Fix: load that one, or build libzero again"));
  }
}

} // namespace zero::base

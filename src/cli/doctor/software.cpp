#include <unistd.h>
#include <zero/version.h>

#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/libtorch_version.h"
#include "cli/doctor/capture.h"
#include "cli/doctor/finding.h"
#include "comm/nccl/load.h"
#include "comm/net/mpi_link.h"

namespace zero::cli {

namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

Finding examine_libtorch() {
  Finding finding{
      .what = c10::str(
          "libtorch ", base::libtorch_version(), ", ", base::libtorch_path())};
  finding.required = true;
  try {
    base::require_libtorch();
  } catch (const ConfigError& error) {
    finding.mark = Mark::missing;
    finding.remedy = error.what();
  }
  return finding;
}

// Where PATH has a program; empty if nowhere.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    std::string file = c10::str(folder.empty() ? "." : folder, "/", name);
    if (::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

Finding examine_python() {
  // Asks for the package's version without loading torch, which takes seconds.
  const std::string version = capture(
      {"python3",
       "-c",
       "import importlib.metadata as m; print(m.version('torch'))"});
  if (version.empty()) {
    return {
        .mark = Mark::missing,
        .what = "torch for Python",
        .remedy = "only needed to work with Python beside libzero"};
  }
  return {.what = c10::str("torch ", version, " for Python")};
}

Finding examine_torchrun() {
  const std::string path = find_program("torchrun");
  if (path.empty()) {
    return {
        .mark = Mark::missing,
        .what = "torchrun",
        .remedy = "not needed: zero run starts ranks on one machine"};
  }
  return {.what = c10::str("torchrun, ", path)};
}

Finding examine_mpi() {
  const auto known = comm::known_mpis();
  if (known.empty()) {
    return {
        .mark = Mark::missing,
        .what = "MPI",
        .remedy =
            "only needed for several machines: build libzero where "
            "mpicxx of Open MPI or MPICH is found"};
  }
  return {.what = c10::str("MPI, modules for ", c10::Join(" and ", known))};
}

Finding examine_nccl() {
  if (!comm::has_nccl_module()) {
    return {
        .mark = Mark::missing,
        .what = "NCCL",
        .remedy =
            "not part of this build: tensors are on the CPU. The preset cuda "
            "adds it"};
  }
  try {
    return {.what = comm::load_nccl_module().library()};
  } catch (const ConfigError& error) {
    return {.mark = Mark::missing, .what = "NCCL", .remedy = error.what()};
  }
}

} // namespace

std::vector<Finding> examine_software() {
  return {
      {.what =
           c10::str("libzero ", ZERO_VERSION, ", compiled by ", compiler())},
      examine_libtorch(),
      examine_python(),
      examine_torchrun(),
      examine_mpi(),
      examine_nccl()};
}

} // namespace zero::cli

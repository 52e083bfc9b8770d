#include "comm/module_path.h"

#include <dlfcn.h>

#include <filesystem>

namespace zero::comm {

std::string module_path(const std::string& name) {
  Dl_info about = {};
  ::dladdr(reinterpret_cast<void*>(&module_path), &about);
  const std::filesystem::path library(about.dli_fname);
  return library.parent_path() / "zero" / ("libzero_" + name + ".so");
}

} // namespace zero::comm

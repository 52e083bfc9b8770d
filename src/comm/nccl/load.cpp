#include "comm/nccl/load.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "comm/module_path.h"

namespace zero::comm {

namespace {

// A template, so that it compiles where streams have no such member.
template <class Stream>
void* native_handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    throw ConfigError(
        "CUDA tensors: this libtorch does not tell its streams. Fix: build "
        "libzero with libtorch 2.15, or move the tensors with .cpu()");
  }
}

} // namespace

bool has_nccl_module() {
  static const bool is_there = std::filesystem::exists(module_path("nccl"));
  return is_there;
}

const ZeroNcclModule& load_nccl_module() {
  const std::string path = module_path("nccl");
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    throw ConfigError(c10::str(
        "cannot load libzero's module for NCCL: ",
        ::dlerror(),
        ". Fix: build libzero with the preset cuda, and leave NCCL where it "
        "was then"));
  }
  using Entry = const ZeroNcclModule* (*)();
  const auto entry =
      reinterpret_cast<Entry>(::dlsym(module, "zero_nccl_module"));
  if (entry == nullptr || entry()->version != kZeroNcclModuleVersion) {
    throw ConfigError(c10::str(
        "'",
        path,
        "' is not of this version of libzero. Fix: install both again"));
  }
  return *entry();
}

void* current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return native_handle_of(guard.getStream(device));
}

} // namespace zero::comm

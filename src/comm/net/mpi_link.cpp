#include "comm/net/mpi_link.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/host_name.h"
#include "comm/module_path.h"
#include "comm/mpi/module.h"

namespace zero::comm {

namespace {

const ZeroMpiModule* load(const std::string& name) {
  const std::string path = module_path(name);
  // MPI loads parts of itself, which look for its symbols.
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) {
    throw ConfigError(c10::str(
        "on host ",
        base::host_name(),
        ", cannot load libzero's module for this MPI: ",
        ::dlerror(),
        ". Fix: build libzero where its mpicxx is found, or start the ranks "
        "with another MPI"));
  }
  using Entry = const ZeroMpiModule* (*)();
  const auto entry =
      reinterpret_cast<Entry>(::dlsym(module, "zero_mpi_module"));
  if (entry == nullptr || entry()->version != kZeroMpiModuleVersion) {
    throw ConfigError(c10::str(
        "on host ",
        base::host_name(),
        ", '",
        path,
        "' is not of this version of libzero. Fix: install both again"));
  }
  return entry();
}

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(const ZeroMpiModule& module, int handle)
      : module_(module), handle_(handle) {}
  ~MpiTransfer() override {
    module_.close(handle_);
  }

  State state() override {
    switch (module_.state(handle_, &bytes_)) {
      case ZeroMpiState::under_way:
        return State::under_way;
      case ZeroMpiState::done:
        return State::done;
      default:
        return State::failed;
    }
  }
  size_t bytes() const override {
    return bytes_;
  }
  void cancel() override {
    module_.cancel(handle_);
  }

 private:
  const ZeroMpiModule& module_;
  int handle_;
  size_t bytes_ = 0;
};

} // namespace

std::vector<std::string> known_mpis() {
  std::vector<std::string> found;
  for (const char* name : {"openmpi", "mpich"}) {
    if (std::filesystem::exists(module_path(name))) {
      found.emplace_back(name);
    }
  }
  return found;
}

MpiLink::MpiLink(const std::string& name) : module_(load(name)) {
  if (module_->start() < 0) {
    throw CommError(c10::str(
        "on host ",
        base::host_name(),
        ", MPI does not start: ",
        module_->error(),
        ". Fix: start the ranks with mpirun of ",
        name,
        ", choose a network that is there, and initialise MPI with "
        "MPI_THREAD_MULTIPLE where the program does"));
  }
}

MpiLink::~MpiLink() {
  module_->stop(is_whole_ ? 1 : 0);
}

int MpiLink::rank() const {
  return module_->rank();
}

int MpiLink::size() const {
  return module_->size();
}

std::unique_ptr<Transfer> MpiLink::send(
    int to,
    int tag,
    const void* data,
    size_t bytes) {
  return std::make_unique<MpiTransfer>(
      *module_, module_->send(to, tag, data, bytes));
}

std::unique_ptr<Transfer> MpiLink::receive(
    int from,
    int tag,
    void* data,
    size_t bytes) {
  return std::make_unique<MpiTransfer>(
      *module_, module_->receive(from, tag, data, bytes));
}

void MpiLink::advance() {
  module_->advance();
}

void MpiLink::abandon() {
  is_whole_ = false;
}

std::string MpiLink::library() const {
  return module_->library();
}

bool MpiLink::survives_losses() const {
  return module_->survives_losses() != 0;
}

std::vector<std::string> MpiLink::all_gather(const std::string& own) {
  std::string all(own.size() * static_cast<size_t>(size()), '\0');
  if (module_->all_gather(own.data(), own.size(), all.data()) < 0) {
    throw CommError(c10::str(
        "the ranks cannot meet: ",
        module_->error(),
        ". Fix: see which rank or host has failed"));
  }
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < all.size(); begin += own.size()) {
    parts.push_back(all.substr(begin, own.size()));
  }
  return parts;
}

} // namespace zero::comm

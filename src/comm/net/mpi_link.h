// Defines MpiLink: a Link over MPI, by the module that was compiled for the one
// that started this process (comm/mpi/module.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/net/link.h"

struct ZeroMpiModule;

namespace zero::comm {

// Of those that this installation has modules for: "openmpi", "mpich".
std::vector<std::string> known_mpis();

class MpiLink final : public Link {
 public:
  // Loads the module and starts MPI; collective. `name` is "openmpi" or
  // "mpich". Throws: ConfigError if there is no module for it; CommError.
  explicit MpiLink(const std::string& name);
  ~MpiLink() override;
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;

  int rank() const override;
  int size() const override;
  std::unique_ptr<Transfer> send(
      int to,
      int tag,
      const void* data,
      size_t bytes) override;
  std::unique_ptr<Transfer> receive(int from, int tag, void* data, size_t bytes)
      override;
  void advance() override;

  void abandon() override;

  std::string library() const;
  bool survives_losses() const override;

  // Collective, and blocks: what every rank gives, which is as long on each.
  // For the beginning, before a Mirror has the link.
  std::vector<std::string> all_gather(const std::string& own);

 private:
  const ZeroMpiModule* module_;
  bool is_whole_ = true;
};

} // namespace zero::comm

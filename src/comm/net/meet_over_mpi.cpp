#include "comm/net/meet_over_mpi.h"

#include <zero/version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_io.h"
#include "base/host_name.h"
#include "base/log.h"
#include "comm/module_path.h"
#include "comm/mpi/module.h"
#include "comm/net/meeting_watch.h"
#include "comm/net/mpi_link.h"
#include "comm/net/pmi_server.h"
#include "comm/net/torchrun_store.h"
#include "comm/shm/segment.h"

namespace zero::comm {

namespace {

// What a rank says of itself at first. All of one host say the same.
struct Introduction {
  std::array<char, 64> version{};
  std::array<char, 256> host{};
  // Hosts may have one name, as containers do.
  std::array<char, 64> boot{};

  bool operator==(const Introduction&) const = default;
};

struct Addresses {
  base::SegmentAddress roster;
  base::SegmentAddress segment;
};

template <size_t size>
void put(std::array<char, size>& to, const std::string& text) {
  std::copy_n(text.data(), std::min(text.size(), size - 1), to.data());
}

Introduction introduce() {
  Introduction own;
  // Builds of one version may differ in what they send to each other.
  put(own.version,
      c10::str(ZERO_VERSION, " (module ", kZeroMpiModuleVersion, ")"));
  put(own.host, base::host_name());
  // Containers of one machine share memory where they see each other's
  // processes.
  std::error_code none;
  put(own.boot,
      c10::str(
          base::read_file(
              "/proc/sys/kernel/random/boot_id", "the number of this boot"),
          std::filesystem::read_symlink("/proc/self/ns/pid", none).string()));
  return own;
}

template <class T>
std::vector<T> all_gather(MpiLink& link, const T& own) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &own, sizeof(T));
  std::vector<T> all;
  for (const std::string& part : link.all_gather(bytes)) {
    std::memcpy(&all.emplace_back(), part.data(), sizeof(T));
  }
  return all;
}

Hosts find_hosts(const std::vector<Introduction>& all) {
  std::vector<int> host_of;
  std::vector<Introduction> known;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].version != all[0].version) {
      throw ConfigError(c10::str(
          "rank ",
          rank,
          " on host ",
          all[rank].host.data(),
          " has libzero ",
          all[rank].version.data(),
          ", rank 0 on ",
          all[0].host.data(),
          " has ",
          all[0].version.data(),
          ". Fix: install one version on all hosts"));
    }
    const auto found = std::find(known.begin(), known.end(), all[rank]);
    host_of.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) {
      known.push_back(all[rank]);
    }
  }
  return Hosts(std::move(host_of));
}

// Answers MPI where torchrun has started the ranks; they have met at its store
// then. Returns where MPI is to ask.
int stand_in_for_mpirun(const Environment& environment, double limit_seconds) {
  const auto found = known_mpis();
  if (std::find(found.begin(), found.end(), environment.mpi) == found.end()) {
    throw ConfigError(c10::str(
        "torchrun has started ranks on several machines: expected libzero's "
        "module for MPICH, which carries what they send, at ",
        module_path(environment.mpi),
        ", where there is none. Fix: build libzero where MPICH's mpicxx is "
        "found, or start the ranks with mpirun"));
  }
  auto gather = gather_at_torchrun(environment, limit_seconds);
  // Here an error can be thrown; within MPI it would end the process.
  gather("");
  return serve_pmi(environment.rank, environment.size, std::move(gather));
}

} // namespace

Meeting meet_over_mpi(const Environment& environment, double limit_seconds) {
  std::optional<PmiVariables> variables;
  if (environment.launcher == Launcher::torchrun_hosts) {
    variables.emplace(
        environment.rank,
        environment.size,
        stand_in_for_mpirun(environment, limit_seconds));
  }
  const MeetingWatch watch(environment.rank, environment.size, limit_seconds);
  auto link = std::make_unique<MpiLink>(environment.mpi);
  variables.reset();
  const int rank = link->rank();
  const int size = link->size();
  if (size != environment.size) {
    throw ConfigError(c10::str(
        environment.size,
        " ranks were started, but MPI, which the program has initialised "
        "itself, knows of ",
        size,
        ". Fix: start them with mpirun, or let zero::init() initialise MPI"));
  }
  const Hosts hosts = find_hosts(all_gather(*link, introduce()));
  const int leader = hosts.ranks_of(hosts.host_of(rank)).front();

  std::optional<Roster> roster;
  std::shared_ptr<base::SharedMapping> segment;
  Addresses own;
  if (rank == leader) {
    std::vector<int> ids;
    for (int id = 0; id < size; ++id) {
      ids.push_back(id);
    }
    roster = Roster::create(size);
    segment = Segment::create(ids, kWorldNumber);
    own = {roster->address(), segment->address()};
  }
  const auto addresses = all_gather(*link, own)[static_cast<size_t>(leader)];
  if (rank != leader) {
    roster = Roster::attach(base::SharedMapping::open(addresses.roster));
    segment = base::SharedMapping::open(addresses.segment);
  }
  all_gather(*link, 0); // all have opened it
  if (hosts.num_hosts() == 1) {
    return {.roster = *roster, .rank = rank, .outside = {}, .segment = {}};
  }
  if (rank == 0 && !link->survives_losses()) {
    base::log_info(
        rank,
        size,
        "the loss of a rank will end this job: its MPI does not survive it. "
        "Open MPI 5 does, when started with --with-ft ulfm");
  }
  auto outside = std::make_shared<Outside>(
      std::move(link), hosts, *roster, roster->memory());
  return {
      .roster = *roster,
      .rank = rank,
      .outside = std::move(outside),
      .segment = std::move(segment)};
}

} // namespace zero::comm

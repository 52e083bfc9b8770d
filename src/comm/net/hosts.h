// Defines Hosts: which rank is on which host.
//
//   Hosts hosts({0, 0, 1, 1}); // by rank
//   hosts.ranks_of(1); // 2, 3
#pragma once

#include <cstddef>
#include <vector>

namespace zero::comm {

class Hosts {
 public:
  // The hosts are numbered from 0 without gaps, and each has a rank.
  explicit Hosts(std::vector<int> host_of);

  int num_ranks() const {
    return static_cast<int>(host_of_.size());
  }
  int num_hosts() const {
    return static_cast<int>(ranks_.size());
  }
  int host_of(int rank) const {
    return host_of_[static_cast<size_t>(rank)];
  }
  const std::vector<int>& ranks_of(int host) const {
    return ranks_[static_cast<size_t>(host)];
  }
  // The place of a rank among those of its host.
  int local_rank(int rank) const {
    return local_rank_[static_cast<size_t>(rank)];
  }

  // Of a host, the rank that does what is to be done there once for another
  // rank; ranks of one host are spread over it.
  int counterpart(int rank, int host) const {
    return ranks_of(host)[static_cast<size_t>(place_there(rank, host))];
  }
  // The host that keeps copies of what a host has, if any does.
  int keeper(int host) const {
    return (host + 1) % num_hosts();
  }
  // Which one it is of those there.
  int place_there(int rank, int host) const {
    return local_rank(rank) % static_cast<int>(ranks_of(host).size());
  }

 private:
  std::vector<int> host_of_;
  std::vector<int> local_rank_;
  std::vector<std::vector<int>> ranks_; // by host
};

} // namespace zero::comm

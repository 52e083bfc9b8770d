#include "comm/net/hosts.h"

#include <algorithm>

#include "base/error.h"

namespace zero::comm {

Hosts::Hosts(std::vector<int> host_of) : host_of_(std::move(host_of)) {
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const auto host = static_cast<size_t>(host_of_[static_cast<size_t>(rank)]);
    ranks_.resize(std::max(ranks_.size(), host + 1));
    local_rank_.push_back(static_cast<int>(ranks_[host].size()));
    ranks_[host].push_back(rank);
  }
  for (const auto& ranks : ranks_) {
    ZERO_CHECK(!ranks.empty(), "a host without ranks");
  }
}

} // namespace zero::comm

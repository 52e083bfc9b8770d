// Defines keep_for_good(): for what MPI may still use when nobody else does.
#pragma once

#include <any>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace zero::comm {

// With a rank lost, nobody knows what MPI still writes where.
template <class... Kept>
void keep_for_good(Kept... kept) {
  static std::mutex mutex;
  static auto* all = new std::vector<std::any>; // longer than the program
  const std::lock_guard lock(mutex);
  (all->emplace_back(std::make_shared<Kept>(std::move(kept))), ...);
}

} // namespace zero::comm

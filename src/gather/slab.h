// Defines Slab: memory for gathered parameters, allocated once. Fresh memory
// for each gather would cost as much in page faults as the copy itself.
//
// Blocks lie in one region of the budget's size, first fit. What does not fit,
// because operators need more at once than the budget or because of gaps, lies
// in regions of its own, which are kept for the next time until free_unused().
//
// Not thread-safe; the owner locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace zero::gather {

class Slab {
 public:
  explicit Slab(int64_t capacity_bytes);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // nullptr if there is no gap of that size.
  std::byte* allocate(int64_t bytes);

  // Always succeeds. Throws: std::bad_alloc.
  std::byte* allocate_apart(int64_t bytes);

  void free(std::byte* block);

  // Gives back what lies apart and is not in use.
  void free_unused();

 private:
  struct Free {
    size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  struct Apart {
    std::unique_ptr<std::byte, Free> memory;
    int64_t bytes = 0;
    bool in_use = false;
  };

  int64_t capacity_;
  std::byte* base_;
  std::map<int64_t, int64_t> used_; // offset, bytes
  std::vector<Apart> apart_;
};

} // namespace zero::gather

#include "gather/slab.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/alignment.h"
#include "base/error.h"

namespace zero::gather {

namespace {

// At least one, so that no two pieces are at the same place.
int64_t whole_lines(int64_t bytes) {
  return std::max(base::kCacheLine, base::round_up(bytes, base::kCacheLine));
}

// What is large comes from the system and goes back to it at once; malloc would
// keep it.
constexpr size_t kLargeBytes = 1 << 20;

// nullptr if the system refuses.
std::byte* map(size_t bytes, int more_flags) {
  void* memory = ::mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | more_flags,
      -1,
      0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

std::byte* take(size_t bytes) {
  if (bytes < kLargeBytes) {
    return static_cast<std::byte*>(::operator new(bytes));
  }
  std::byte* memory = map(bytes, 0);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

} // namespace

void Slab::Free::operator()(std::byte* memory) const {
  if (bytes < kLargeBytes) {
    ::operator delete(memory);
  } else {
    ::munmap(memory, bytes);
  }
}

Slab::Slab(int64_t capacity_bytes)
    : capacity_(whole_lines(capacity_bytes)),
      base_(map(static_cast<size_t>(capacity_), MAP_NORESERVE)) {
  if (base_ == nullptr) {
    throw IoError(base::system_message(
        c10::str(
            "no memory for ",
            capacity_,
            " bytes of gathered parameters. Fix: lower libzero.gather_budget"),
        "mmap",
        errno));
  }
}

Slab::~Slab() {
  ::munmap(base_, static_cast<size_t>(capacity_));
}

std::byte* Slab::allocate(int64_t bytes) {
  const int64_t wanted = whole_lines(bytes);
  int64_t gap = 0;
  for (const auto& [offset, length] : used_) {
    if (offset - gap >= wanted) {
      break;
    }
    gap = offset + length;
  }
  if (capacity_ - gap < wanted) {
    return nullptr;
  }
  used_.emplace(gap, wanted);
  return base_ + gap;
}

std::byte* Slab::allocate_apart(int64_t bytes) {
  const int64_t wanted = whole_lines(bytes);
  for (auto& block : apart_) {
    // One much larger would be missed by who needs it.
    if (!block.in_use && block.bytes >= wanted && block.bytes <= 2 * wanted) {
      block.in_use = true;
      return block.memory.get();
    }
  }
  const auto size = static_cast<size_t>(wanted);
  apart_.push_back({{take(size), {size}}, wanted, true});
  return apart_.back().memory.get();
}

void Slab::free(std::byte* block) {
  if (block >= base_ && block < base_ + capacity_) {
    used_.erase(block - base_);
    return;
  }
  const auto found =
      std::find_if(apart_.begin(), apart_.end(), [&](const Apart& apart) {
        return apart.memory.get() == block;
      });
  ZERO_CHECK(found != apart_.end());
  found->in_use = false;
}

void Slab::free_unused() {
  std::erase_if(apart_, [](const Apart& apart) { return !apart.in_use; });
}

} // namespace zero::gather

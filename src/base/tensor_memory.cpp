#include "base/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#include <sys/mman.h>

#include <list>
#include <mutex>
#include <unordered_map>

#include "base/alignment.h"

namespace zero::base {

namespace {

constexpr size_t kHugePage = 2 << 20;
// No tensor has more, and sums of it and a page do not overflow.
constexpr size_t kMostBytes = size_t{1} << 62;

struct Block {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

// Begins at a huge page. data is nullptr if the system refuses.
Block map_block(size_t bytes) {
  const size_t with_gap = bytes + kHugePage;
  void* mapped = ::mmap(
      nullptr,
      with_gap,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS,
      -1,
      0);
  if (mapped == MAP_FAILED) {
    return {};
  }
  auto* begin = static_cast<std::byte*>(mapped);
  const size_t gap =
      (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* data = begin + gap;
  if (gap > 0) {
    ::munmap(begin, gap);
  }
  ::munmap(data + bytes, with_gap - gap - bytes);
  // A kernel without them gives ordinary pages.
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return {data, bytes};
}

class Blocks {
 public:
  // nullptr if the system refuses.
  std::byte* take(size_t wanted) {
    const size_t bytes = round_up(wanted, kPage);
    const std::lock_guard lock(mutex_);
    Block block = take_idle(bytes);
    if (block.data == nullptr) {
      block = map_block(bytes);
    }
    if (block.data == nullptr) {
      shrink_idle(0);
      block = map_block(bytes);
    }
    if (block.data != nullptr) {
      used_.emplace(block.data, block.bytes);
      memory_.used_bytes += block.bytes;
    }
    return block.data;
  }

  // False if it is not from here.
  bool give_back(std::byte* data) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    if (found == used_.end()) {
      return false;
    }
    // Before another thread can have the same place.
    c10::profiledCPUMemoryReporter().Delete(data);
    const size_t bytes = found->second;
    used_.erase(found);
    memory_.used_bytes -= bytes;
    idle_.push_front({data, bytes});
    memory_.idle_bytes += bytes;
    shrink_idle(kIdleTensorBytes);
    return true;
  }

  TensorMemory memory() {
    const std::lock_guard lock(mutex_);
    return memory_;
  }

  std::mutex& mutex() {
    return mutex_;
  }

 private:
  // The smallest that is large enough without wasting more than a quarter.
  Block take_idle(size_t bytes) {
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      if (it->bytes >= bytes && it->bytes <= bytes + bytes / 4 &&
          (best == idle_.end() || it->bytes < best->bytes)) {
        best = it;
      }
    }
    if (best == idle_.end()) {
      return {};
    }
    const Block block = *best;
    idle_.erase(best);
    memory_.idle_bytes -= block.bytes;
    return block;
  }

  // What has been idle longest goes first.
  void shrink_idle(size_t limit) {
    while (memory_.idle_bytes > limit) {
      const Block block = idle_.back();
      idle_.pop_back();
      memory_.idle_bytes -= block.bytes;
      ::munmap(block.data, block.bytes);
    }
  }

  std::mutex mutex_;
  std::unordered_map<std::byte*, size_t> used_;
  std::list<Block> idle_; // the one last used first
  TensorMemory memory_;
};

// Never destroyed: tensors of static duration come back after everything else.
Blocks& blocks() {
  static auto* blocks = new Blocks;
  return *blocks;
}

class BlockAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const bool is_large = bytes >= kLargeTensorBytes && bytes <= kMostBytes;
    std::byte* data = is_large ? blocks().take(bytes) : nullptr;
    if (data == nullptr) {
      // Which has libtorch's own words for no memory.
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    }
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &free, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &free;
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  // Also of what the default allocator has given, here or before this one was.
  static void free(void* data) {
    if (!blocks().give_back(static_cast<std::byte*>(data))) {
      c10::GetDefaultCPUAllocator()->raw_deleter()(data);
    }
  }
};

void install() {
  if (c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) {
    return;
  }
  // A fork in the middle of take() must not leave the child a locked mutex.
  ::pthread_atfork(
      [] { blocks().mutex().lock(); },
      [] { blocks().mutex().unlock(); },
      [] { blocks().mutex().unlock(); });
  c10::SetCPUAllocator(new BlockAllocator);
}

} // namespace

void keep_large_tensors() {
  static std::once_flag once;
  std::call_once(once, install);
}

TensorMemory large_tensor_memory() {
  return blocks().memory();
}

} // namespace zero::base

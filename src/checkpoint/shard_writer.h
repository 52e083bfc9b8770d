// Defines write_shard(): the part of a checkpoint that one rank has, as a
// safetensors file. It is written straight from where the tensors lie.
//
// Note [Shards]
// A rank has elements of a parameter here and there: its slices of the flat
// space (shard/layout.h). They are one tensor in its file, one after another,
// and the file's metadata say of each tensor which elements these are, and the
// checksums of its blocks: so whoever needs a few elements reads and checks the
// blocks that have them, and no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_types.h"

namespace zero::checkpoint {

inline constexpr int64_t kBlockBytes = int64_t{1} << 20;

// Elements [begin, end) of a tensor, in the order of memory.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t numel() const {
    return end - begin;
  }
};

struct ShardTensor {
  struct Part {
    ElementRange range;
    const std::byte* data = nullptr;
  };

  std::string key;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes = {}; // of the whole
  std::vector<Part> parts = {}; // in order; together not empty, or all of it
};

// Throws: IoError.
SavedShard write_shard(
    const std::string& path,
    const std::vector<ShardTensor>& tensors);

// Puts elements of a tensor where they belong.
using ReadElements = std::function<
    void(const ShardTensor& tensor, ElementRange range, std::byte* to)>;

// The same of what does not lie in memory: no part has data, and `read` is
// asked for a block at a time.
SavedShard write_shard(
    const std::string& path,
    const std::vector<ShardTensor>& tensors,
    const ReadElements& read);

// What metadata say of a tensor.
std::string describe_content(
    const std::vector<ElementRange>& ranges,
    const std::vector<uint64_t>& checksums);

} // namespace zero::checkpoint

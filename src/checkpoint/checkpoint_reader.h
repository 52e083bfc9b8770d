// Defines CheckpointReader: the tensors of a checkpoint, whichever ranks wrote
// them, element by element. Nothing is believed: what it returns has the
// checksum that it was written with.
//
//   CheckpointReader reader("checkpoint/step-000000000120");
//   reader.read(parameter_key("fc.weight"), {100, 200}, to);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/shard_writer.h"

namespace zero::checkpoint {

class CheckpointReader {
 public:
  // Throws: IoError; CorruptionError naming the file and what is wrong with it;
  // ConfigError for a newer format.
  explicit CheckpointReader(std::string folder);

  const std::string& folder() const {
    return folder_;
  }
  const Manifest& manifest() const {
    return manifest_;
  }

  // Elements of a tensor, to anywhere. Throws: IoError, CorruptionError.
  void read(const std::string& key, ElementRange range, std::byte* to);
  // A tensor that one rank has written whole.
  at::Tensor read_whole(const std::string& key);
  bool has(const std::string& key) const {
    return places_.contains(key);
  }
  // What rank wrote of its own; undefined if there is no such rank.
  at::Tensor random_state(int rank);

  // Reads everything, block after block.
  void verify();

 private:
  // A tensor of a shard.
  struct Content {
    size_t shard = 0;
    std::string key;
    c10::ScalarType dtype = c10::ScalarType::Float;
    int64_t bytes = 0;
    std::vector<ElementRange> ranges;
    std::vector<uint64_t> checksums; // of its blocks
  };
  // Elements of a tensor, and where they are in a content.
  struct Place {
    ElementRange range;
    const Content* content = nullptr;
    int64_t offset = 0; // bytes
  };

  [[noreturn]] void refuse(const std::string& file, const std::string& what)
      const;
  void open_shard(size_t rank);
  Content& add_content(size_t shard, const TensorEntry& entry);
  void add_places(const Content& content);
  void check_is_complete(
      const std::string& key,
      c10::ScalarType dtype,
      const std::vector<int64_t>& sizes) const;
  void check_is_complete() const;
  void check_is_in_one_piece(const SavedBuffer& buffer) const;
  void read_bytes(
      const Content& content,
      int64_t begin,
      std::byte* to,
      int64_t bytes);
  const std::byte* block(const Content& content, int64_t number);

  std::string folder_;
  Manifest manifest_;
  std::vector<std::unique_ptr<SafetensorsReader>> shards_;
  std::deque<Content> contents_;
  std::map<std::string, std::vector<Place>> places_; // by begin
  std::vector<const Content*> random_; // by rank

  // The block that was read last: who reads on needs it again.
  std::unique_ptr<std::byte[]> block_;
  const Content* block_content_ = nullptr;
  int64_t block_number_ = 0;
};

} // namespace zero::checkpoint

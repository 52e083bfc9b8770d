// Defines SafetensorsReader: reads the tensors of a safetensors file, one at a
// time. Nothing in the file is believed: lengths and offsets are checked
// against the file before anything is allocated.
//
//   SafetensorsReader reader("model.safetensors");
//   for (const auto& entry : reader.entries()) {
//     at::Tensor tensor = reader.read(entry.name);
//   }
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "checkpoint/safetensors_types.h"
#include "config/json_value.h"

namespace zero::checkpoint {

class SafetensorsReader {
 public:
  // Throws: IoError if the file cannot be read; CorruptionError if it is not a
  // safetensors file, or not all of one.
  explicit SafetensorsReader(std::string path);

  const std::string& path() const {
    return path_;
  }

  // In the order of their names in the header.
  const std::vector<TensorEntry>& entries() const {
    return entries_;
  }

  // What the file says of itself.
  const Metadata& metadata() const {
    return metadata_;
  }
  // Of all that comes before the data.
  uint64_t header_checksum() const {
    return header_checksum_;
  }
  int64_t bytes() const { // of the file
    return data_begin_ + data_bytes_;
  }

  // Throws: IoError; ConfigError if there is none of that name.
  at::Tensor read(const std::string& name) const;
  // Bytes of a tensor, from one of them on. Requires: it has them.
  void read_bytes(
      const std::string& name,
      int64_t begin,
      void* to,
      int64_t bytes) const;

 private:
  struct Place {
    size_t entry = 0;
    int64_t begin = 0; // in the file
    int64_t bytes = 0;
  };

  [[noreturn]] void refuse(const std::string& what) const;
  std::string read_header(int64_t file_bytes);
  void add(const std::string& name, const config::JsonValue& value);
  void add_metadata(const config::JsonValue& value);
  const Place& place_of(const std::string& name) const;
  void check_places() const;
  void read_at(int64_t offset, void* to, int64_t bytes) const;

  std::string path_;
  base::UniqueFd file_;
  int64_t data_begin_ = 0;
  int64_t data_bytes_ = 0;
  std::vector<TensorEntry> entries_;
  std::map<std::string, Place> places_;
  Metadata metadata_;
  uint64_t header_checksum_ = 0;
};

} // namespace zero::checkpoint

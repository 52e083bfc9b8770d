// Defines SafetensorsWriter: writes a safetensors file, tensor by tensor, so
// that the whole never has to be in memory.
//
//   SafetensorsWriter writer(path, {{"weight", at::kFloat, {2, 3}}});
//   writer.write(data, bytes);      // each tensor in the order given
//   writer.commit();                // only then the file has its name
//
// A file that is not committed leaves nothing behind.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "checkpoint/safetensors_types.h"

namespace zero::checkpoint {

class SafetensorsWriter {
 public:
  // Throws: IoError; ConfigError for a type the format does not have.
  SafetensorsWriter(std::string path, const std::vector<TensorEntry>& tensors);

  void write(const void* data, size_t bytes);
  void commit();

 private:
  base::NewFile file_;
  size_t expected_bytes_ = 0;
  size_t written_bytes_ = 0;
};

} // namespace zero::checkpoint

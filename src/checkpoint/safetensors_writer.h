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
  SafetensorsWriter(
      std::string path,
      std::vector<TensorEntry> tensors,
      const Metadata& metadata = {});

  void write(const void* data, size_t bytes);
  // Of what was not known before the data; as long as what it was made with.
  void replace_metadata(const Metadata& metadata);
  void commit();

  // All that comes before the data.
  const std::string& header() const {
    return header_;
  }
  size_t bytes() const { // of the file
    return expected_bytes_;
  }

 private:
  std::string make_header(const Metadata& metadata);

  base::NewFile file_;
  std::vector<TensorEntry> tensors_;
  size_t expected_bytes_ = 0; // known when the header is made
  std::string header_;
  size_t written_bytes_ = 0;
};

} // namespace zero::checkpoint

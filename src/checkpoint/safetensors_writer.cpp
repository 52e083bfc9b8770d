#include "checkpoint/safetensors_writer.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/safetensors_header.h"

namespace zero::checkpoint {

SafetensorsWriter::SafetensorsWriter(
    std::string path,
    const std::vector<TensorEntry>& tensors)
    : file_(std::move(path)) {
  const std::string header = safetensors_header(tensors);
  expected_bytes_ = header.size() + data_bytes(tensors);
  write(header.data(), header.size());
}

void SafetensorsWriter::write(const void* data, size_t bytes) {
  file_.write({static_cast<const char*>(data), bytes});
  written_bytes_ += bytes;
}

void SafetensorsWriter::commit() {
  ZERO_CHECK_EQ(written_bytes_, expected_bytes_);
  file_.commit();
}

} // namespace zero::checkpoint

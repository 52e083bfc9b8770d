#include "checkpoint/safetensors_writer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace zero::checkpoint {

// Length, JSON, and spaces up to a multiple of 8, as the format asks for.
std::string SafetensorsWriter::make_header(const Metadata& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  header["__metadata__"]["format"] = "pt";
  size_t data_bytes = 0;
  for (const auto& tensor : tensors_) {
    const char* dtype = type_name(tensor.dtype);
    if (dtype == nullptr) {
      throw ConfigError(c10::str(
          "tensor '",
          tensor.name,
          "' has type ",
          c10::toString(tensor.dtype),
          ", which safetensors does not have. Fix: convert it first"));
    }
    size_t bytes = c10::elementSize(tensor.dtype);
    for (const int64_t size : tensor.sizes) {
      bytes *= static_cast<size_t>(size);
    }
    header[tensor.name] = {
        {"dtype", dtype},
        {"shape", tensor.sizes},
        {"data_offsets", {data_bytes, data_bytes + bytes}}};
    data_bytes += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string result(8, '\0');
  for (size_t i = 0; i < 8; ++i) { // little-endian
    result[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  }
  result += text;
  expected_bytes_ = result.size() + data_bytes;
  return result;
}

SafetensorsWriter::SafetensorsWriter(
    std::string path,
    std::vector<TensorEntry> tensors,
    const Metadata& metadata)
    : file_(std::move(path)),
      tensors_(std::move(tensors)),
      header_(make_header(metadata)) {
  write(header_.data(), header_.size());
}

void SafetensorsWriter::replace_metadata(const Metadata& metadata) {
  const size_t bytes = header_.size();
  header_ = make_header(metadata);
  ZERO_CHECK_EQ(header_.size(), bytes);
  file_.overwrite(0, header_);
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

#include "checkpoint/safetensors_writer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace zero::checkpoint {

namespace {

// nullptr if the format does not have it.
const char* name_of(c10::ScalarType dtype) {
  for (const auto& [type, name] : kSafetensorsTypes) {
    if (type == dtype) {
      return name;
    }
  }
  return nullptr;
}

// Length, JSON, and spaces up to a multiple of 8, as the format asks for.
std::string header_of(
    const std::vector<TensorEntry>& tensors,
    size_t& data_bytes) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  data_bytes = 0;
  for (const auto& tensor : tensors) {
    const char* dtype = name_of(tensor.dtype);
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
  return result + text;
}

} // namespace

SafetensorsWriter::SafetensorsWriter(
    std::string path,
    const std::vector<TensorEntry>& tensors)
    : file_(std::move(path)) {
  size_t data_bytes = 0;
  const std::string header = header_of(tensors, data_bytes);
  expected_bytes_ = header.size() + data_bytes;
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

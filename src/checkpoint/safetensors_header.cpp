#include "checkpoint/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace zero::checkpoint {

namespace {

size_t bytes_of(const TensorEntry& tensor) {
  size_t bytes = c10::elementSize(tensor.dtype);
  for (const int64_t size : tensor.sizes) {
    bytes *= static_cast<size_t>(size);
  }
  return bytes;
}

} // namespace

std::string safetensors_header(
    const std::vector<TensorEntry>& tensors,
    const Metadata& metadata,
    size_t alignment) {
  constexpr size_t kLengthBytes = 8;
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  header["__metadata__"]["format"] = "pt";
  size_t begin = 0;
  for (const auto& tensor : tensors) {
    const char* dtype = type_name(tensor.dtype);
    if (dtype == nullptr) {
      throw ConfigError(c10::str(
          "tensor '",
          tensor.name,
          "' has type ",
          c10::toString(tensor.dtype),
          ", which safetensors does not have. Fix: convert it first"));
    }
    const size_t end = begin + bytes_of(tensor);
    header[tensor.name] = {
        {"dtype", dtype},
        {"shape", tensor.sizes},
        {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  const size_t whole =
      (kLengthBytes + text.size() + alignment - 1) / alignment * alignment;
  text.resize(whole - kLengthBytes, ' ');
  std::string result(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) { // little-endian
    result[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  }
  return result + text;
}

size_t data_bytes(const std::vector<TensorEntry>& tensors) {
  size_t bytes = 0;
  for (const auto& tensor : tensors) {
    bytes += bytes_of(tensor);
  }
  return bytes;
}

} // namespace zero::checkpoint

#include "checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_io.h"

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
    : path_(std::move(path)), temporary_(path_ + '.' + std::string(6, 'X')) {
  size_t data_bytes = 0;
  const std::string header = header_of(tensors, data_bytes);
  expected_bytes_ = header.size() + data_bytes;
  file_ = base::UniqueFd(::mkostemp(temporary_.data(), O_CLOEXEC));
  if (!file_.valid()) {
    const int error = errno;
    temporary_.clear();
    fail("mkostemp", error);
  }
  // Readable as any file the user makes, not only by the owner.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file_.get(), 0666 & ~mask);
  write(header.data(), header.size());
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!committed_ && !temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void SafetensorsWriter::fail(const char* call, int error) {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    temporary_.clear();
  }
  throw IoError(base::system_message(
      c10::str(
          "cannot write '",
          path_,
          "'. Fix: name a folder that exists, is writable and has ",
          expected_bytes_,
          " bytes free"),
      call,
      error));
}

void SafetensorsWriter::write(const void* data, size_t bytes) {
  const int error =
      base::write_all(file_.get(), {static_cast<const char*>(data), bytes});
  if (error != 0) {
    fail("write", error);
  }
  written_bytes_ += bytes;
}

void SafetensorsWriter::commit() {
  ZERO_CHECK_EQ(written_bytes_, expected_bytes_);
  if (::fsync(file_.get()) != 0) {
    fail("fsync", errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail("rename", errno);
  }
  committed_ = true;
  // The new name, too, is to survive a loss of power.
  const auto folder = std::filesystem::absolute(path_).parent_path();
  const base::UniqueFd directory(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) {
    ::fsync(directory.get());
  }
}

} // namespace zero::checkpoint

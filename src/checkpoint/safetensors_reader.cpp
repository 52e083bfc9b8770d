#include "checkpoint/safetensors_reader.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file_io.h"
#include "config/parse_json.h"

namespace zero::checkpoint {

using config::JsonValue;

namespace {

std::optional<c10::ScalarType> type_called(std::string_view name) {
  for (const auto& [type, type_name] : kSafetensorsTypes) {
    if (name == type_name) {
      return type;
    }
  }
  return std::nullopt;
}

// Numbers of at least 0, or nothing.
std::optional<std::vector<int64_t>> counts(const JsonValue* value) {
  if (value == nullptr || value->kind != JsonValue::Kind::list) {
    return std::nullopt;
  }
  std::vector<int64_t> result;
  for (const auto& element : value->elements) {
    if (element.kind != JsonValue::Kind::integer || element.integer < 0) {
      return std::nullopt;
    }
    result.push_back(element.integer);
  }
  return result;
}

// Nothing if it is more than an int64_t has; neither may what the other sizes
// make beside a 0, because libtorch computes strides from it.
std::optional<int64_t> num_bytes(const TensorEntry& entry) {
  auto bytes = static_cast<int64_t>(c10::elementSize(entry.dtype));
  bool is_empty = false;
  for (const int64_t size : entry.sizes) {
    is_empty = is_empty || size == 0;
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) {
      return std::nullopt;
    }
  }
  return is_empty ? 0 : bytes;
}

} // namespace

SafetensorsReader::SafetensorsReader(std::string path)
    : path_(std::move(path)),
      file_(base::open_to_read(path_, "'" + path_ + "'")) {
  struct stat about {};
  ::fstat(file_.get(), &about);
  const std::string text = read_header(about.st_size);
  JsonValue header;
  try {
    config::Report report(path_);
    header = config::parse_json(text, path_, report);
    report.throw_if_any();
  } catch (const ConfigError& error) {
    refuse(c10::str("its header is not right: ", error.what()));
  }
  if (!header.is_object()) {
    refuse("its header is no object");
  }
  for (size_t i = 0; i < header.keys.size(); ++i) {
    if (header.keys[i] == "__metadata__") {
      add_metadata(header.elements[i]);
    } else {
      add(header.keys[i], header.elements[i]);
    }
  }
  check_places();
}

void SafetensorsReader::refuse(const std::string& what) const {
  throw CorruptionError(c10::str(
      "'",
      path_,
      "' is not a whole safetensors file: ",
      what,
      ". Fix: copy or download it again"));
}

std::string SafetensorsReader::read_header(int64_t file_bytes) {
  if (file_bytes < 8) {
    refuse(c10::str("it has ", file_bytes, " bytes"));
  }
  uint8_t length_bytes[8];
  read_at(0, length_bytes, 8);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) { // little-endian
    length = length << 8 | length_bytes[i];
  }
  if (length > static_cast<uint64_t>(file_bytes - 8)) {
    refuse(c10::str(
        "its header would have ", length, " bytes, the file has ", file_bytes));
  }
  if (length > config::kMaxJsonBytes) {
    refuse(c10::str(
        "its header would have ",
        length,
        " bytes, more than ",
        config::kMaxJsonBytes));
  }
  data_begin_ = 8 + static_cast<int64_t>(length);
  data_bytes_ = file_bytes - data_begin_;
  std::string text(length, '\0');
  read_at(8, text.data(), static_cast<int64_t>(length));
  base::Checksum checksum;
  checksum.add(length_bytes, sizeof(length_bytes));
  checksum.add(text.data(), text.size());
  header_checksum_ = checksum.value();
  return text;
}

// Texts, as the format has it; what else there may be is not ours to use.
void SafetensorsReader::add_metadata(const JsonValue& value) {
  for (size_t i = 0; i < value.keys.size(); ++i) {
    if (value.elements[i].kind == JsonValue::Kind::text) {
      metadata_[value.keys[i]] = value.elements[i].text;
    }
  }
}

void SafetensorsReader::add(const std::string& name, const JsonValue& value) {
  const auto* dtype = value.is_object() ? value.find("dtype") : nullptr;
  const auto sizes = counts(value.is_object() ? value.find("shape") : nullptr);
  const auto offsets =
      counts(value.is_object() ? value.find("data_offsets") : nullptr);
  if (dtype == nullptr || dtype->kind != JsonValue::Kind::text || !sizes ||
      !offsets || offsets->size() != 2) {
    refuse(c10::str(
        "tensor '", name, "' has no dtype, shape and two data_offsets"));
  }
  const auto type = type_called(dtype->text);
  if (!type) {
    refuse(c10::str("tensor '", name, "' has the unknown type ", dtype->text));
  }
  entries_.push_back({name, *type, *sizes});
  const int64_t begin = (*offsets)[0];
  const int64_t end = (*offsets)[1];
  const auto bytes = num_bytes(entries_.back());
  if (begin > end || end > data_bytes_) {
    refuse(c10::str(
        "tensor '",
        name,
        "' has bytes ",
        begin,
        " to ",
        end,
        ", there are ",
        data_bytes_));
  }
  if (bytes != end - begin) {
    refuse(c10::str(
        "tensor '",
        name,
        "' of sizes ",
        c10::IntArrayRef(*sizes),
        " has ",
        end - begin,
        " bytes"));
  }
  places_[name] = {
      .entry = entries_.size() - 1,
      .begin = data_begin_ + begin,
      .bytes = end - begin};
}

// The format has neither gaps nor overlaps: a file with one was made by
// mistake, or to hide something.
void SafetensorsReader::check_places() const {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, place] : places_) {
    ranges.emplace_back(place.begin, place.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t end = data_begin_;
  for (const auto& [begin, bytes] : ranges) {
    if (begin != end) {
      refuse(c10::str(
          "bytes ",
          std::min(begin, end) - data_begin_,
          " to ",
          std::max(begin, end) - data_begin_,
          begin < end ? " belong to two tensors" : " belong to no tensor"));
    }
    end += bytes;
  }
  if (end != data_begin_ + data_bytes_) {
    refuse(c10::str(
        "tensors have ", end - data_begin_, " bytes, the file ", data_bytes_));
  }
}

const SafetensorsReader::Place& SafetensorsReader::place_of(
    const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    throw ConfigError(
        c10::str("there is no tensor '", name, "' in '", path_, "'"));
  }
  return found->second;
}

at::Tensor SafetensorsReader::read(const std::string& name) const {
  const Place& place = place_of(name);
  const auto& entry = entries_[place.entry];
  at::Tensor tensor = at::empty(entry.sizes, at::TensorOptions(entry.dtype));
  read_at(place.begin, tensor.mutable_data_ptr(), place.bytes);
  return tensor;
}

void SafetensorsReader::read_bytes(
    const std::string& name,
    int64_t begin,
    void* to,
    int64_t bytes) const {
  const Place& place = place_of(name);
  ZERO_CHECK(
      begin >= 0 && bytes >= 0 && begin <= place.bytes - bytes,
      "tensor '",
      name,
      "' is shorter");
  read_at(place.begin + begin, to, bytes);
}

void SafetensorsReader::read_at(int64_t offset, void* to, int64_t bytes) const {
  auto* place = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count =
        ::pread(file_.get(), place, static_cast<size_t>(bytes), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw IoError(base::system_message(
          c10::str("cannot read '", path_, "'"), "pread", errno));
    }
    if (count == 0) {
      refuse(c10::str("it became shorter than ", offset + bytes, " bytes"));
    }
    place += count;
    offset += count;
    bytes -= count;
  }
}

} // namespace zero::checkpoint

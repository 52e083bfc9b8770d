#include "report/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>

#include "base/error.h"
#include "base/file_io.h"

namespace zero::report {

namespace {

// ---- the few parts of protocol buffers that an event consists of ----

enum class Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& to, uint64_t value) {
  while (value >= 0x80) {
    to += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  to += static_cast<char>(value);
}

void put_key(std::string& to, uint64_t field, Wire wire) {
  put_varint(to, field << 3 | static_cast<uint64_t>(wire));
}

template <class Unsigned>
void put_little_endian(std::string& to, Unsigned value) {
  for (size_t i = 0; i < sizeof(Unsigned); ++i) {
    to += static_cast<char>(value >> 8 * i & 0xff);
  }
}

void put_bytes(std::string& to, uint64_t field, std::string_view bytes) {
  put_key(to, field, Wire::bytes);
  put_varint(to, bytes.size());
  to += bytes;
}

// A double or a float, by its bits.
template <class Unsigned>
void put_fixed(std::string& to, uint64_t field, Unsigned bits) {
  put_key(to, field, sizeof(bits) == 8 ? Wire::fixed64 : Wire::fixed32);
  put_little_endian(to, bits);
}

void put_number(std::string& to, uint64_t field, uint64_t value) {
  put_key(to, field, Wire::varint);
  put_varint(to, value);
}

// Numbers of fields in event.proto, summary.proto and tensor.proto.
namespace event {
constexpr uint64_t kWallTime = 1;
constexpr uint64_t kStep = 2;
constexpr uint64_t kFileVersion = 3;
constexpr uint64_t kSummary = 5;
} // namespace event
namespace summary {
constexpr uint64_t kValue = 1;
constexpr uint64_t kTag = 1;
constexpr uint64_t kSimpleValue = 2;
constexpr uint64_t kTensor = 8;
constexpr uint64_t kMetadata = 9;
constexpr uint64_t kPluginData = 1;
constexpr uint64_t kPluginName = 1;
} // namespace summary
namespace tensor {
constexpr uint64_t kDtype = 1;
constexpr uint64_t kShape = 2;
constexpr uint64_t kDim = 2;
constexpr uint64_t kDimSize = 1;
constexpr uint64_t kStringValue = 8;
constexpr uint64_t kString = 7; // the type
} // namespace tensor

std::string as_summary(const std::string& value) {
  std::string inner;
  put_bytes(inner, summary::kValue, value);
  std::string outer;
  put_bytes(outer, event::kSummary, inner);
  return outer;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
    }
    table[i] = crc;
  }
  return table;
}

} // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  }
  return std::rotr(~crc, 15) + 0xa282ead8U;
}

EventFile::EventFile(const std::string& folder) {
  // TensorBoard reads the files of a folder in the order of their names.
  path_ = c10::str(
      folder,
      "/events.out.tfevents.",
      static_cast<int64_t>(seconds_since_1970()),
      ".zero.",
      ::getpid());
  file_ = base::UniqueFd(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_.valid()) {
    throw IoError(base::system_message(
        c10::str(
            "cannot write '",
            path_,
            "'. Fix: name a folder that exists and is writable"),
        "open",
        errno));
  }
  std::string version;
  put_bytes(version, event::kFileVersion, "brain.Event:2");
  write_event(version, 0);
}

void EventFile::add_scalar(std::string_view tag, double value, int64_t step) {
  std::string scalar;
  put_bytes(scalar, summary::kTag, tag);
  put_fixed(
      scalar,
      summary::kSimpleValue,
      std::bit_cast<uint32_t>(static_cast<float>(value)));
  write_event(as_summary(scalar), step);
}

void EventFile::add_text(
    std::string_view tag,
    std::string_view text,
    int64_t step) {
  std::string dimension;
  put_number(dimension, tensor::kDimSize, 1);
  std::string shape;
  put_bytes(shape, tensor::kDim, dimension);
  std::string strings;
  put_number(strings, tensor::kDtype, tensor::kString);
  put_bytes(strings, tensor::kShape, shape);
  put_bytes(strings, tensor::kStringValue, text);

  std::string plugin;
  put_bytes(plugin, summary::kPluginName, "text");
  std::string metadata;
  put_bytes(metadata, summary::kPluginData, plugin);

  std::string value;
  put_bytes(value, summary::kTag, tag);
  put_bytes(value, summary::kTensor, strings);
  put_bytes(value, summary::kMetadata, metadata);
  write_event(as_summary(value), step);
}

// A record: length, checksum of the length, the event, its checksum.
void EventFile::write_event(std::string_view fields, int64_t step) {
  std::string whole;
  put_fixed(
      whole, event::kWallTime, std::bit_cast<uint64_t>(seconds_since_1970()));
  put_number(whole, event::kStep, static_cast<uint64_t>(step));
  whole += fields;
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(whole.size()));
  put_little_endian(record, masked_crc32c(record));
  record += whole;
  put_little_endian(record, masked_crc32c(whole));

  if (const int error = base::write_all(file_.get(), record)) {
    throw IoError(base::system_message(
        c10::str("cannot write '", path_, "'. Fix: make room on its disk"),
        "write",
        error));
  }
}

} // namespace zero::report

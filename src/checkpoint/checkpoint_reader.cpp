#include "checkpoint/checkpoint_reader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"

namespace zero::checkpoint {

namespace {

// Texts between separators; a text that is empty has none.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

template <class Number>
bool parse(std::string_view text, Number& number, int base = 10) {
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number, base);
  return result.ec == std::errc() && result.ptr == end && !text.empty();
}

bool parse_range(std::string_view text, ElementRange& range) {
  const size_t colon = text.find(':');
  return colon != std::string_view::npos &&
      parse(text.substr(0, colon), range.begin) &&
      parse(text.substr(colon + 1), range.end) && range.begin >= 0 &&
      range.begin <= range.end;
}

// -1 if it is more than there can be.
int64_t numel_of(const std::vector<int64_t>& sizes) {
  int64_t numel = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(numel, size, &numel)) {
      return -1;
    }
  }
  return numel;
}

} // namespace

CheckpointReader::CheckpointReader(std::string folder)
    : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {
  random_.resize(manifest_.shards.size());
  for (size_t rank = 0; rank < manifest_.shards.size(); ++rank) {
    open_shard(rank);
  }
  for (auto& [key, places] : places_) {
    std::ranges::sort(
        places, {}, [](const Place& place) { return place.range.begin; });
  }
  check_is_complete();
}

void CheckpointReader::refuse(const std::string& file, const std::string& what)
    const {
  throw CorruptionError(c10::str(
      "'",
      folder_,
      "/",
      file,
      "' is not as it was saved: ",
      what,
      ". Fix: load another checkpoint"));
}

void CheckpointReader::open_shard(size_t rank) {
  const std::string name = shard_name(static_cast<int>(rank));
  const std::string path = folder_ + '/' + name;
  std::error_code ignored;
  if (!std::filesystem::exists(
          std::filesystem::symlink_status(path, ignored))) {
    refuse(name, "it is missing");
  }
  if (std::filesystem::is_symlink(path, ignored)) {
    refuse(name, "it is a link");
  }
  auto reader = std::make_unique<SafetensorsReader>(path);
  const SavedShard& expected = manifest_.shards[rank];
  if (reader->bytes() != expected.bytes) {
    refuse(
        name,
        c10::str("it has ", reader->bytes(), " bytes, not ", expected.bytes));
  }
  if (reader->header_checksum() != expected.checksum) {
    refuse(name, "the checksum of its header is wrong");
  }
  for (const auto& entry : reader->entries()) {
    const auto about = reader->metadata().find(entry.name);
    if (about == reader->metadata().end()) {
      refuse(name, c10::str("nothing is said of '", entry.name, "'"));
    }
    Content& content = contents_.emplace_back();
    content.shard = rank;
    content.key = entry.name;
    content.dtype = entry.dtype;
    const auto element = static_cast<int64_t>(c10::elementSize(entry.dtype));
    content.bytes = numel_of(entry.sizes) * element; // fits: the reader says so
    const auto halves = split(about->second, ';');
    int64_t numel = 0;
    bool is_right =
        about->second.find(';') != std::string::npos && halves.size() <= 2;
    if (is_right && !halves.empty() && about->second.front() != ';') {
      for (const auto& text : split(halves.front(), ',')) {
        auto& range = content.ranges.emplace_back();
        is_right = is_right && parse_range(text, range) &&
            !__builtin_add_overflow(numel, range.numel(), &numel);
      }
    }
    if (is_right && content.bytes > 0 && halves.size() == 2) {
      for (const auto& text : split(halves.back(), ',')) {
        is_right =
            is_right && parse(text, content.checksums.emplace_back(), 16);
      }
    }
    if (!is_right || numel != content.bytes / element ||
        static_cast<int64_t>(content.checksums.size()) !=
            (content.bytes + kBlockBytes - 1) / kBlockBytes) {
      refuse(name, c10::str("what is said of '", entry.name, "' is wrong"));
    }
    if (entry.name == kRandomKey) {
      random_[rank] = &content;
    } else {
      add_places(content);
    }
  }
  shards_.push_back(std::move(reader));
}

void CheckpointReader::add_places(const Content& content) {
  const auto element = static_cast<int64_t>(c10::elementSize(content.dtype));
  int64_t offset = 0;
  auto& places = places_[content.key];
  for (const auto& range : content.ranges) {
    places.push_back({range, &content, offset});
    offset += range.numel() * element;
  }
}

// Every element once.
void CheckpointReader::check_is_complete(
    const std::string& key,
    c10::ScalarType dtype,
    const std::vector<int64_t>& sizes) const {
  const int64_t numel = numel_of(sizes);
  int64_t end = 0;
  const auto found = places_.find(key);
  if (found != places_.end()) {
    for (const auto& place : found->second) {
      if (place.range.begin != end || place.content->dtype != dtype) {
        refuse(
            shard_name(static_cast<int>(place.content->shard)),
            c10::str(
                "elements ",
                place.range.begin,
                " and more of '",
                key,
                "' are there twice, not at all, or of another type"));
      }
      end = place.range.end;
    }
  }
  if (end != numel) {
    refuse(
        kManifestName,
        c10::str("of '", key, "' there are ", end, " elements, not ", numel));
  }
}

void CheckpointReader::check_is_complete() const {
  for (const auto& parameter : manifest_.parameters) {
    const std::string& name = parameter.names.front();
    check_is_complete(parameter_key(name), parameter.dtype, parameter.sizes);
    for (int i = 0; parameter.trained && i < manifest_.num_states; ++i) {
      check_is_complete(
          state_key(i, name), state_dtype(parameter.dtype), parameter.sizes);
    }
  }
  for (const auto& buffer : manifest_.buffers) {
    check_is_complete(buffer_key(buffer.name), buffer.dtype, buffer.sizes);
    check_is_in_one_piece(buffer);
  }
}

// So read_whole() can rely on it.
void CheckpointReader::check_is_in_one_piece(const SavedBuffer& buffer) const {
  const auto found = places_.find(buffer_key(buffer.name));
  if (found == places_.end()) { // it has no elements
    return;
  }
  const auto& content = *found->second.front().content;
  const auto& entries = shards_[content.shard]->entries();
  const auto entry =
      std::ranges::find(entries, content.key, &TensorEntry::name);
  if (found->second.size() != 1 || entry->sizes != buffer.sizes) {
    refuse(
        shard_name(static_cast<int>(content.shard)),
        c10::str("buffer '", buffer.name, "' is not in one piece"));
  }
}

void CheckpointReader::read(
    const std::string& key,
    ElementRange range,
    std::byte* to) {
  const auto found = places_.find(key);
  if (range.numel() == 0) {
    return;
  }
  ZERO_CHECK(found != places_.end(), "there is no '", key, "'");
  const auto& places = found->second;
  auto place =
      std::ranges::upper_bound(places, range.begin, {}, [](const Place& each) {
        return each.range.end;
      });
  for (; place != places.end() && place->range.begin < range.end; ++place) {
    const auto element =
        static_cast<int64_t>(c10::elementSize(place->content->dtype));
    const int64_t begin = std::max(range.begin, place->range.begin);
    const int64_t end = std::min(range.end, place->range.end);
    read_bytes(
        *place->content,
        place->offset + (begin - place->range.begin) * element,
        to + (begin - range.begin) * element,
        (end - begin) * element);
  }
}

at::Tensor CheckpointReader::read_whole(const std::string& key) {
  const auto& places = places_.at(key);
  const auto& content = *places.front().content;
  const auto& entries = shards_[content.shard]->entries();
  const auto entry = std::ranges::find(entries, key, &TensorEntry::name);
  at::Tensor tensor = at::empty(entry->sizes, at::TensorOptions(entry->dtype));
  read_bytes(
      content,
      0,
      static_cast<std::byte*>(tensor.mutable_data_ptr()),
      content.bytes);
  return tensor;
}

at::Tensor CheckpointReader::random_state(int rank) {
  const auto index = static_cast<size_t>(rank);
  if (index >= random_.size() || random_[index] == nullptr) {
    return {};
  }
  const Content& content = *random_[index];
  at::Tensor state = at::empty({content.bytes}, at::kByte);
  read_bytes(
      content,
      0,
      static_cast<std::byte*>(state.mutable_data_ptr()),
      content.bytes);
  return state;
}

void CheckpointReader::verify() {
  for (const auto& content : contents_) {
    for (int64_t i = 0; i * kBlockBytes < content.bytes; ++i) {
      block(content, i);
    }
  }
}

void CheckpointReader::read_bytes(
    const Content& content,
    int64_t begin,
    std::byte* to,
    int64_t bytes) {
  while (bytes > 0) {
    const int64_t number = begin / kBlockBytes;
    const int64_t in_block = begin % kBlockBytes;
    const int64_t count = std::min(bytes, kBlockBytes - in_block);
    std::memcpy(
        to, block(content, number) + in_block, static_cast<size_t>(count));
    to += count;
    begin += count;
    bytes -= count;
  }
}

const std::byte* CheckpointReader::block(
    const Content& content,
    int64_t number) {
  if (block_content_ == &content && block_number_ == number) {
    return block_.get();
  }
  if (!block_) {
    block_ = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  }
  block_content_ = nullptr;
  const int64_t begin = number * kBlockBytes;
  const int64_t bytes = std::min(kBlockBytes, content.bytes - begin);
  shards_[content.shard]->read_bytes(content.key, begin, block_.get(), bytes);
  const std::string_view data(
      reinterpret_cast<const char*>(block_.get()), static_cast<size_t>(bytes));
  if (base::checksum_of(data) !=
      content.checksums[static_cast<size_t>(number)]) {
    refuse(
        shard_name(static_cast<int>(content.shard)),
        c10::str(
            "the checksum of '",
            content.key,
            "' is wrong in bytes ",
            begin,
            " to ",
            begin + bytes));
  }
  block_content_ = &content;
  block_number_ = number;
  return block_.get();
}

} // namespace zero::checkpoint

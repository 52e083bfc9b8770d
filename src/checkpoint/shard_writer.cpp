#include "checkpoint/shard_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/checksum.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "checkpoint/safetensors_writer.h"

namespace zero::checkpoint {

namespace {

int64_t numel_of(const ShardTensor& tensor) {
  int64_t numel = 0;
  for (const auto& part : tensor.parts) {
    numel += part.range.numel();
  }
  return numel;
}

int64_t bytes_of(const ShardTensor& tensor) {
  return numel_of(tensor) *
      static_cast<int64_t>(c10::elementSize(tensor.dtype));
}

// What is whole has its own shape.
TensorEntry entry_of(const ShardTensor& tensor) {
  int64_t whole = 1;
  for (const int64_t size : tensor.sizes) {
    whole *= size;
  }
  const int64_t numel = numel_of(tensor);
  return {
      tensor.key,
      tensor.dtype,
      numel == whole ? tensor.sizes : std::vector<int64_t>{numel}};
}

std::vector<ElementRange> ranges_of(const ShardTensor& tensor) {
  std::vector<ElementRange> ranges;
  for (const auto& part : tensor.parts) {
    if (!ranges.empty() && ranges.back().end == part.range.begin) {
      ranges.back().end = part.range.end;
    } else {
      ranges.push_back(part.range);
    }
  }
  return ranges;
}

// Blocks go through memory of their own: what is small becomes large writes.
class BlockWriter {
 public:
  explicit BlockWriter(SafetensorsWriter& file)
      : file_(file),
        block_(std::make_unique_for_overwrite<std::byte[]>(kBlockBytes)) {}

  std::vector<uint64_t> write(const ShardTensor& tensor) {
    std::vector<uint64_t> checksums;
    const auto element = static_cast<int64_t>(c10::elementSize(tensor.dtype));
    int64_t filled = 0;
    const auto finish_block = [&] {
      const std::string_view block(
          reinterpret_cast<const char*>(block_.get()),
          static_cast<size_t>(filled));
      checksums.push_back(base::checksum_of(block));
      file_.write(block.data(), block.size());
      filled = 0;
    };
    for (const auto& part : tensor.parts) {
      const std::byte* data = part.data;
      int64_t left = part.range.numel() * element;
      while (left > 0) {
        const int64_t bytes = std::min(left, kBlockBytes - filled);
        std::memcpy(block_.get() + filled, data, static_cast<size_t>(bytes));
        filled += bytes;
        data += bytes;
        left -= bytes;
        if (filled == kBlockBytes) {
          finish_block();
        }
      }
    }
    if (filled > 0) {
      finish_block();
    }
    return checksums;
  }

 private:
  SafetensorsWriter& file_;
  std::unique_ptr<std::byte[]> block_;
};

} // namespace

SavedShard write_shard(
    const std::string& path,
    const std::vector<ShardTensor>& tensors) {
  std::vector<TensorEntry> entries;
  Metadata metadata;
  for (const auto& tensor : tensors) {
    entries.push_back(entry_of(tensor));
    const auto num_blocks = (bytes_of(tensor) + kBlockBytes - 1) / kBlockBytes;
    metadata[tensor.key] = describe_content(
        ranges_of(tensor),
        std::vector<uint64_t>(static_cast<size_t>(num_blocks)));
  }
  SafetensorsWriter file(path, std::move(entries), metadata);
  BlockWriter blocks(file);
  for (const auto& tensor : tensors) {
    metadata[tensor.key] =
        describe_content(ranges_of(tensor), blocks.write(tensor));
  }
  if (const int error = base::failpoint("save.shard"); error != 0) {
    throw IoError(base::system_message(
        c10::str("cannot write '", path, "'"), "write", error));
  }
  file.replace_metadata(metadata);
  file.commit();
  return {static_cast<int64_t>(file.bytes()), base::checksum_of(file.header())};
}

std::string describe_content(
    const std::vector<ElementRange>& ranges,
    const std::vector<uint64_t>& checksums) {
  std::string text;
  for (const auto& range : ranges) {
    text += c10::str(text.empty() ? "" : ",", range.begin, ":", range.end);
  }
  text += ';';
  for (size_t i = 0; i < checksums.size(); ++i) {
    text += c10::str(i == 0 ? "" : ",", base::checksum_text(checksums[i]));
  }
  return text;
}

} // namespace zero::checkpoint

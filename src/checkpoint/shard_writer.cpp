#include "checkpoint/shard_writer.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/direct_file.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "checkpoint/safetensors_header.h"

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

// Appends a tensor, and returns the checksums of its blocks. `read` is for
// parts that have no data.
std::vector<uint64_t> write_tensor(
    base::DirectFile& file,
    const ShardTensor& tensor,
    const ReadElements& read) {
  constexpr int64_t kPieceBytes = 128 << 10; // stays in the cache for the copy
  const auto element = static_cast<int64_t>(c10::elementSize(tensor.dtype));
  std::vector<uint64_t> checksums;
  std::vector<std::byte> piece;
  base::Checksum checksum;
  int64_t in_block = 0;
  const auto finish_block = [&] {
    checksums.push_back(checksum.value());
    checksum.reset();
    in_block = 0;
  };
  for (const auto& part : tensor.parts) {
    const std::byte* data = part.data;
    // Blocks and pieces are of whole elements, whatever their type.
    for (ElementRange left = part.range; left.numel() > 0;) {
      const int64_t bytes = std::min(
          {left.numel() * element, kBlockBytes - in_block, kPieceBytes});
      const ElementRange next{left.begin, left.begin + bytes / element};
      if (part.data == nullptr) {
        piece.resize(kPieceBytes);
        read(tensor, next, piece.data());
        data = piece.data();
      }
      checksum.add(data, static_cast<size_t>(bytes));
      file.append(data, static_cast<size_t>(bytes));
      in_block += bytes;
      data += bytes;
      left.begin = next.end;
      if (in_block == kBlockBytes) {
        finish_block();
      }
    }
  }
  if (in_block > 0) {
    finish_block();
  }
  return checksums;
}

} // namespace

SavedShard write_shard(
    const std::string& path,
    const std::vector<ShardTensor>& tensors) {
  return write_shard(path, tensors, {});
}

SavedShard write_shard(
    const std::string& path,
    const std::vector<ShardTensor>& tensors,
    const ReadElements& read) {
  std::vector<TensorEntry> entries;
  Metadata metadata;
  for (const auto& tensor : tensors) {
    entries.push_back(entry_of(tensor));
    const auto num_blocks = (bytes_of(tensor) + kBlockBytes - 1) / kBlockBytes;
    metadata[tensor.key] = describe_content(
        ranges_of(tensor),
        std::vector<uint64_t>(static_cast<size_t>(num_blocks)));
  }
  const auto header_with = [&](const Metadata& known) {
    return safetensors_header(entries, known, base::DirectFile::kAlignment);
  };
  // Checksums are known when the data are written; until then they are zeros.
  const std::string provisional = header_with(metadata);
  base::DirectFile file(path);
  file.append(provisional.data(), provisional.size());
  for (const auto& tensor : tensors) {
    metadata[tensor.key] =
        describe_content(ranges_of(tensor), write_tensor(file, tensor, read));
  }
  if (const int error = base::failpoint("save.shard"); error != 0) {
    throw IoError(base::system_message(
        c10::str("cannot write '", path, "'"), "write", error));
  }
  const std::string header = header_with(metadata);
  ZERO_CHECK_EQ(header.size(), provisional.size());
  file.replace_begin(header);
  file.finish();
  return {
      static_cast<int64_t>(header.size() + data_bytes(entries)),
      base::checksum_of(header)};
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

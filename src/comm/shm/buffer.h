// Defines how collectives look at a tensor: bytes, cut by rank and by piece.
#pragma once

#include <ATen/core/Tensor.h>
#include <zero/communicator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "comm/stream_copy.h"

namespace zero::comm {

inline std::byte* bytes_of(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? nullptr
                             : static_cast<std::byte*>(tensor.data_ptr());
}

inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) { // an empty tensor has no address
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

// The same into a buffer of `whole` bytes, which may be larger than the cache.
inline void copy_out(void* to, const void* from, int64_t bytes, int64_t whole) {
  if (whole >= kStreamBytes) {
    stream_copy(to, from, bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
}

struct ByteRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// A buffer of `numel` elements, cut in one chunk for each rank, and each chunk
// in pieces of at most `piece_bytes`.
class ChunkedBuffer {
 public:
  ChunkedBuffer(
      int64_t numel,
      int64_t element_bytes,
      int size,
      int64_t piece_bytes)
      : numel_(numel),
        element_bytes_(element_bytes),
        size_(size),
        piece_bytes_(piece_bytes / element_bytes * element_bytes) {}

  // The first chunk is the largest.
  int64_t num_pieces() const {
    return (chunk(0).bytes + piece_bytes_ - 1) / piece_bytes_;
  }

  ByteRange chunk(int rank) const {
    const ChunkRange range = chunk_range(numel_, rank, size_);
    return {range.offset * element_bytes_, range.numel * element_bytes_};
  }

  // Where a piece of rank's chunk lies in the chunk; empty beyond its end.
  ByteRange piece(int rank, int64_t piece) const {
    const int64_t offset = piece * piece_bytes_;
    const int64_t left = chunk(rank).bytes - offset;
    return {offset, std::clamp<int64_t>(left, 0, piece_bytes_)};
  }

  // Where it lies in the whole buffer.
  ByteRange piece_in_buffer(int rank, int64_t number) const {
    const ByteRange range = piece(rank, number);
    return {chunk(rank).offset + range.offset, range.bytes};
  }

 private:
  int64_t numel_;
  int64_t element_bytes_;
  int size_;
  int64_t piece_bytes_;
};

} // namespace zero::comm

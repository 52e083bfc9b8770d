// Defines TokenFile: the tokens of a file, mapped, so that a file larger than
// memory is read as it is needed.
//
//   TokenFile tokens("train.bin");
//   at::Tensor ids = tokens.read(begin, 65, vocabulary); // of int64
//
// Formats: nanoGPT's, which is nothing but 16-bit numbers, and llm.c's, with a
// header of 256 32-bit numbers and tokens of 16 or 32 bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "data/token_format.h"

namespace zero::data {

class TokenFile {
 public:
  // llm.c's files say what they are; everything else is taken for nanoGPT's.
  // Throws: IoError if it cannot be read; CorruptionError if it has half a
  // token, or not what its header says.
  explicit TokenFile(std::string path);

  int64_t num_tokens() const {
    return num_tokens_;
  }

  // Throws: ConfigError if there are not that many; CorruptionError for a token
  // that is not below `vocabulary`.
  at::Tensor read(int64_t begin, int64_t count, int64_t vocabulary) const;

  // Throws: CorruptionError if any token is not below `vocabulary`. Reads the
  // whole file.
  void check_all(int64_t vocabulary) const;

 private:
  template <class T>
  void check_tokens(int64_t begin, int64_t count, int64_t vocabulary) const;
  [[noreturn]] void refuse(const std::string& what) const;
  void read_header();
  const std::byte* tokens() const {
    return mapping_.get() + data_begin_;
  }

  std::string path_;
  std::shared_ptr<const std::byte> mapping_;
  int64_t file_bytes_ = 0;
  int64_t data_begin_ = 0;
  int64_t token_bytes_ = kPlainTokenBytes;
  int64_t num_tokens_ = 0;
};

} // namespace zero::data

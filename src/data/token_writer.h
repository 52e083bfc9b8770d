// Defines TokenWriter: writes the tokens of a text as TokenFile reads them.
//
//   TokenWriter writer("train.bin", TokenFormat::nanogpt, vocabulary);
//   writer.add(tokenizer->encode(text));
//   writer.commit(); // only then the file has its name
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_io.h"

namespace zero::data {

enum class TokenFormat {
  nanogpt, // 16-bit numbers and nothing else
  llmc, // a header that says what follows; 32 bits if 16 do not do
};

class TokenWriter {
 public:
  // Throws: ConfigError if the format's numbers are too small for the
  // vocabulary; IoError.
  TokenWriter(const std::string& path, TokenFormat format, int64_t vocabulary);

  void add(const std::vector<int64_t>& tokens);
  void commit();

  int64_t num_tokens() const {
    return num_tokens_;
  }

 private:
  base::NewFile file_;
  TokenFormat format_;
  int64_t token_bytes_;
  int64_t num_tokens_ = 0;
};

} // namespace zero::data

#include "data/token_writer.h"

#include <cstring>

#include "base/error.h"
#include "data/token_format.h"

namespace zero::data {

namespace {

constexpr int64_t kShortTokens = int64_t{1} << 16;

// Of the numbers that the format has, the smallest that do.
int64_t bytes_of_a_token(TokenFormat format, int64_t vocabulary) {
  if (vocabulary <= kShortTokens) {
    return kPlainTokenBytes;
  }
  if (format == TokenFormat::nanogpt) {
    throw ConfigError(c10::str(
        "nanoGPT's files have tokens below ",
        kShortTokens,
        ", the vocabulary has ",
        vocabulary,
        ". Fix: choose the format llm.c"));
  }
  return 4;
}

template <class T>
std::string narrowed(const std::vector<int64_t>& tokens) {
  std::string bytes(tokens.size() * sizeof(T), '\0');
  for (size_t i = 0; i < tokens.size(); ++i) {
    const T token = static_cast<T>(tokens[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &token, sizeof(T));
  }
  return bytes;
}

} // namespace

TokenWriter::TokenWriter(
    const std::string& path,
    TokenFormat format,
    int64_t vocabulary)
    : file_(path),
      format_(format),
      token_bytes_(bytes_of_a_token(format, vocabulary)) {
  if (format_ == TokenFormat::llmc) {
    file_.write(std::string(kTokenHeaderBytes, '\0')); // written at the end
  }
}

void TokenWriter::add(const std::vector<int64_t>& tokens) {
  file_.write(
      token_bytes_ == kPlainTokenBytes ? narrowed<uint16_t>(tokens)
                                       : narrowed<uint32_t>(tokens));
  num_tokens_ += static_cast<int64_t>(tokens.size());
}

void TokenWriter::commit() {
  if (format_ == TokenFormat::llmc) {
    for (const auto& header : kTokenHeaders) {
      if (header.token_bytes == token_bytes_) {
        file_.overwrite(
            0, narrowed<uint32_t>({header.magic, header.version, num_tokens_}));
      }
    }
  }
  file_.commit();
}

} // namespace zero::data

#include "data/token_windows.h"

#include <ATen/ops/stack.h>

#include <utility>

#include "base/error.h"

namespace zero::data {

TokenWindows::TokenWindows(Read read, int64_t num_tokens, int64_t length)
    : read_(std::move(read)), num_tokens_(num_tokens), length_(length) {
  if (length < 1 || num_tokens <= length) {
    throw ConfigError(c10::str(
        "sequences of ",
        length,
        " tokens need at least one more, the text has ",
        num_tokens,
        ". Fix: use more text, or shorter sequences"));
  }
}

TokenWindows::TokenWindows(const at::Tensor& tokens, int64_t length)
    : TokenWindows(
          [tokens](int64_t begin, int64_t count) {
            return tokens.narrow(0, begin, count);
          },
          tokens.size(0),
          length) {}

TokenWindows::TokenWindows(
    std::shared_ptr<const TokenFile> file,
    int64_t begin,
    int64_t end,
    int64_t length,
    int64_t vocabulary)
    : TokenWindows(
          [file = std::move(file),
           begin,
           vocabulary](int64_t place, int64_t count) {
            return file->read(begin + place, count, vocabulary);
          },
          end - begin,
          length) {}

TokenWindows::Batch TokenWindows::batch(
    const std::vector<int64_t>& samples) const {
  std::vector<at::Tensor> sequences;
  sequences.reserve(samples.size());
  for (const int64_t sample : samples) {
    sequences.push_back(read_(sample, length_ + 1));
  }
  const at::Tensor all = at::stack(sequences);
  return {
      .inputs = all.narrow(1, 0, length_).contiguous(),
      .targets = all.narrow(1, 1, length_).contiguous()};
}

} // namespace zero::data

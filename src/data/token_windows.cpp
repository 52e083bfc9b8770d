#include "data/token_windows.h"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace zero::data {

TokenWindows::TokenWindows(Read read, int64_t num_tokens, int64_t length)
    : read_(std::move(read)), num_tokens_(num_tokens), length_(length) {
  if (length < 1 || num_tokens <= length) {
    throw ConfigError(c10::str(
        "this part of the text has ",
        num_tokens,
        " tokens, expected at least ",
        length + 1,
        ": a sequence of ",
        length,
        " and the one after it. Fix: use more text, or shorter sequences"));
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

TokenWindows::Batch TokenWindows::windows(
    const std::vector<int64_t>& numbers) const {
  const auto count = static_cast<int64_t>(numbers.size());
  Batch batch{
      .inputs = at::zeros({count, length_}, at::kLong),
      .targets = at::full({count, length_}, kNoTarget, at::kLong)};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = numbers[static_cast<size_t>(i)] * length_;
    const int64_t length = std::min(length_, num_tokens_ - 1 - begin);
    const at::Tensor tokens = read_(begin, length + 1);
    batch.inputs[i].narrow(0, 0, length).copy_(tokens.narrow(0, 0, length));
    batch.targets[i].narrow(0, 0, length).copy_(tokens.narrow(0, 1, length));
  }
  return batch;
}

} // namespace zero::data

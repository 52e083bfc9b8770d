// Defines TokenWindows: sequences out of a long text of tokens, for a model
// that learns what comes next.
//
//   TokenWindows windows(tokens, /*length=*/64);
//   auto [inputs, targets] = windows.batch(sampler.next(world, 12));
//
// Every place of the text that has `length` tokens and one more behind it is a
// sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace zero::data {

class TokenWindows {
 public:
  // Of tokens in memory, of int64 and one dimension. Throws: ConfigError if
  // there are fewer than length + 1.
  TokenWindows(const at::Tensor& tokens, int64_t length);

  // Of a file's tokens from `begin` up to `end`, which are below `vocabulary`.
  TokenWindows(
      std::shared_ptr<const TokenFile> file,
      int64_t begin,
      int64_t end,
      int64_t length,
      int64_t vocabulary);

  int64_t num_samples() const {
    return num_tokens_ - length_;
  }

  struct Batch {
    at::Tensor inputs; // number x length, of int64
    at::Tensor targets; // the same, one token later
  };
  Batch batch(const std::vector<int64_t>& samples) const;

  // Windows side by side that predict every token once but the first, which
  // nothing comes before. Where the text ends within the last one, targets are
  // kNoTarget.
  static constexpr int64_t kNoTarget = -100; // as torch's losses have it
  int64_t num_windows() const {
    return (num_tokens_ - 1 + length_ - 1) / length_;
  }
  Batch windows(const std::vector<int64_t>& numbers) const;

 private:
  using Read = std::function<at::Tensor(int64_t begin, int64_t count)>;
  TokenWindows(Read read, int64_t num_tokens, int64_t length);

  Read read_;
  int64_t num_tokens_;
  int64_t length_;
};

} // namespace zero::data

// Defines generate(): goes on with a sequence, token by token.
//
//   generate(gpt, prompt, {.num_tokens = 100, .top_k = 50}, [&](int64_t token)
//   {
//     std::cout << tokenizer->decode({token}) << std::flush;
//     return true; // false: enough
//   });
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "models/gpt.h"

namespace zero::models {

struct GenerateOptions {
  int64_t num_tokens = 256;
  // Below 1, likely tokens become likelier; 0 takes the likeliest.
  double temperature = 1;
  int64_t top_k = 0; // of the likeliest so many; 0: of all
  // Of the likeliest that are this probable together; 1: of all.
  double top_p = 1;
  uint64_t seed = 0;
  // Only of the first so many, which the tokenizer has; 0: of all. Models are
  // often given more, so that sizes are round.
  int64_t num_known = 0;
};

// Throws: ConfigError for options out of range, with all of them.
void check(const GenerateOptions& options);

// One of the tokens that `logits`, of one dimension, are about.
int64_t choose_token(
    const at::Tensor& logits,
    const GenerateOptions& options,
    at::Generator& generator);

// Calls `on_token` with each new token until it returns false. When the
// sequence is longer than the model can see, its last half goes on. Throws:
// ConfigError if the prompt is empty or has tokens that the model does not
// know.
void generate(
    Gpt& gpt,
    std::vector<int64_t> prompt,
    const GenerateOptions& options,
    const std::function<bool(int64_t)>& on_token);

} // namespace zero::models

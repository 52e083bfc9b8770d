#include "models/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace zero::models {

namespace {

constexpr double kLowestTemperature = 1e-3; // less is no different from 0
constexpr double kExcluded = -std::numeric_limits<double>::infinity();

} // namespace

void check(const GenerateOptions& options) {
  std::string problems;
  const auto expect =
      [&](bool is_right, const char* name, auto value, const char* expected) {
        if (!is_right) {
          problems +=
              c10::str("\n  ", name, " is ", value, ", expected ", expected);
        }
      };
  expect(
      options.num_tokens >= 0, "num_tokens", options.num_tokens, "0 or more");
  expect(
      options.temperature == 0 || options.temperature >= kLowestTemperature,
      "temperature",
      options.temperature,
      "0, or 0.001 or more");
  expect(options.top_k >= 0, "top_k", options.top_k, "0 or more");
  expect(
      options.top_p > 0 && options.top_p <= 1,
      "top_p",
      options.top_p,
      "more than 0, at most 1");
  if (!problems.empty()) {
    throw ConfigError("generating cannot begin:" + problems);
  }
}

int64_t choose_token(
    const at::Tensor& logits,
    const GenerateOptions& options,
    at::Generator& generator) {
  if (options.temperature == 0) {
    return logits.argmax().item<int64_t>();
  }
  at::Tensor scaled = logits.to(at::kDouble) / options.temperature;
  if (options.top_k > 0 && options.top_k < scaled.numel()) {
    const at::Tensor least = std::get<0>(scaled.topk(options.top_k)).min();
    scaled = scaled.masked_fill(scaled < least, kExcluded);
  }
  if (options.top_p < 1) {
    auto [sorted, order] = scaled.sort(/*dim=*/0, /*descending=*/true);
    const at::Tensor probabilities = at::softmax(sorted, 0);
    // Those before it do not have enough together.
    const at::Tensor excluded =
        probabilities.cumsum(0) - probabilities >= options.top_p;
    scaled = scaled.index_fill(0, order.masked_select(excluded), kExcluded);
  }
  return at::multinomial(
             at::softmax(scaled, 0), 1, /*replacement=*/true, generator)
      .item<int64_t>();
}

void generate(
    Gpt& gpt,
    std::vector<int64_t> prompt,
    const GenerateOptions& options,
    const std::function<bool(int64_t)>& on_token) {
  check(options);
  const auto& sizes = gpt->options();
  if (prompt.empty()) {
    throw ConfigError("generating needs a prompt of at least one token");
  }
  for (const int64_t token : prompt) {
    if (token < 0 || token >= sizes.vocabulary) {
      throw ConfigError(c10::str(
          "the prompt has token ",
          token,
          ", the model has ",
          sizes.vocabulary,
          ". Fix: use the tokenizer that it was trained with"));
    }
  }
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  GptCache cache;
  std::vector<int64_t> seen = std::move(prompt);
  std::vector<int64_t> news = seen; // what the cache does not have
  for (int64_t i = 0; i < options.num_tokens; ++i) {
    const auto length = cache.length() + static_cast<int64_t>(news.size());
    if (length > sizes.max_length) {
      cache = {};
      const auto kept = std::max<int64_t>(1, sizes.max_length / 2);
      news.assign(seen.end() - kept, seen.end());
    }
    const at::Tensor tokens = at::tensor(news, at::kLong).unsqueeze(0);
    at::Tensor logits = gpt->forward(tokens, &cache)[0][-1];
    if (options.num_known > 0 && options.num_known < logits.size(0)) {
      logits = logits.narrow(0, 0, options.num_known);
    }
    const int64_t token = choose_token(logits, options, generator);
    seen.push_back(token);
    news = {token};
    if (!on_token(token)) {
      return;
    }
  }
}

} // namespace zero::models

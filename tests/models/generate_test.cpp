#include "models/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <map>

#include "engine/error_of.h"

namespace zero::models {
namespace {

using test::error_of;
using test::has;
using Tokens = std::vector<int64_t>;

Gpt small_gpt() {
  torch::manual_seed(1);
  Gpt gpt(GptOptions{
      .vocabulary = 30,
      .max_length = 8,
      .width = 16,
      .num_layers = 2,
      .num_heads = 2,
      .dropout = 0});
  gpt->eval();
  // Logits of a new model are nearly alike.
  const torch::NoGradGuard no_grad;
  for (auto& parameter : gpt->parameters()) {
    parameter.mul_(8);
  }
  return gpt;
}

Tokens generated(Gpt& gpt, Tokens prompt, const GenerateOptions& options) {
  Tokens tokens;
  generate(gpt, std::move(prompt), options, [&](int64_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

// How often each token is chosen, of 2000.
std::map<int64_t, int> chosen(
    const std::vector<double>& probabilities,
    const GenerateOptions& options) {
  auto generator = at::detail::createCPUGenerator(options.seed);
  const auto logits = at::tensor(probabilities).log();
  std::map<int64_t, int> counts;
  for (int i = 0; i < 2000; ++i) {
    ++counts[choose_token(logits, options, generator)];
  }
  return counts;
}

TEST(Generate, TheLikeliestIsWhatAForwardWithoutCacheSays) {
  auto gpt = small_gpt();
  Tokens sequence{3, 7, 11};
  const auto tokens =
      generated(gpt, sequence, {.num_tokens = 5, .temperature = 0});
  ASSERT_EQ(tokens.size(), 5);
  for (const int64_t token : tokens) {
    const auto logits =
        gpt->forward(at::tensor(sequence, at::kLong).unsqueeze(0));
    EXPECT_EQ(token, logits[0][-1].argmax().item<int64_t>());
    sequence.push_back(token);
  }
  EXPECT_EQ(generated(gpt, {3, 7, 11}, {.num_tokens = 5, .top_k = 1}), tokens);
  EXPECT_EQ(
      generated(gpt, {3, 7, 11}, {.num_tokens = 5, .top_p = 1e-9}), tokens);
}

TEST(Generate, ASeedGivesTheSameTokensAgain) {
  auto gpt = small_gpt();
  const auto tokens = generated(gpt, {1}, {.num_tokens = 30, .seed = 5});
  EXPECT_EQ(tokens.size(), 30); // more than the model sees at once
  EXPECT_EQ(generated(gpt, {1}, {.num_tokens = 30, .seed = 5}), tokens);
  EXPECT_NE(generated(gpt, {1}, {.num_tokens = 30, .seed = 6}), tokens);
}

TEST(Generate, PromptsLongerThanTheModelSeesGoOnFromTheirEnd) {
  auto gpt = small_gpt();
  Tokens prompt;
  for (int64_t i = 0; i < 20; ++i) {
    prompt.push_back(i);
  }
  const Tokens end(prompt.end() - 4, prompt.end());
  EXPECT_EQ(
      generated(gpt, prompt, {.num_tokens = 3, .temperature = 0}),
      generated(gpt, end, {.num_tokens = 3, .temperature = 0}));
}

TEST(Generate, TokensAreChosenByTheirProbability) {
  const std::vector<double> probabilities{0.5, 0.3, 0.15, 0.05};
  auto counts = chosen(probabilities, {});
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[3], 100, 50);
  counts = chosen(probabilities, {.top_k = 2});
  EXPECT_NEAR(counts[0], 1250, 120);
  EXPECT_EQ(counts.size(), 2);
  counts = chosen(probabilities, {.top_p = 0.75}); // 0.5 is not enough
  EXPECT_EQ(counts.size(), 2);
  counts = chosen(probabilities, {.top_p = 0.85});
  EXPECT_EQ(counts.size(), 3);
  counts = chosen(probabilities, {.temperature = 0.1});
  EXPECT_GT(counts[0], 1950);
}

TEST(Generate, TokensThatTheTokenizerDoesNotHaveAreNotChosen) {
  torch::manual_seed(3);
  Gpt gpt(GptOptions{
      .vocabulary = 500,
      .max_length = 8,
      .width = 8,
      .num_layers = 1,
      .num_heads = 1});
  generate(gpt, {1}, {.num_tokens = 60, .num_known = 5}, [](int64_t token) {
    EXPECT_LT(token, 5);
    return true;
  });
}

TEST(Generate, EndsWhenItIsTold) {
  auto gpt = small_gpt();
  int count = 0;
  generate(gpt, {1}, {.num_tokens = 30}, [&](int64_t) { return ++count < 4; });
  EXPECT_EQ(count, 4);
}

TEST(Generate, BadInputIsNamed) {
  auto gpt = small_gpt();
  EXPECT_TRUE(
      has(error_of([&] { generated(gpt, {}, {}); }), "at least one token"));
  EXPECT_TRUE(
      has(error_of([&] { generated(gpt, {30}, {}); }),
          "has token 30, the model has 30"));
  const std::string text = error_of([&] {
    generated(gpt, {1}, {.temperature = -1, .top_k = -2, .top_p = 0});
  });
  for (const char* part :
       {"temperature is -1", "top_k is -2", "top_p is 0, expected more"}) {
    EXPECT_TRUE(has(text, part)) << text;
  }
}

} // namespace
} // namespace zero::models

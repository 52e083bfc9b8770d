#include "models/gpt.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <set>
#include <string>

#include "engine/error_of.h"
#include "engine/models.h"

namespace zero::models {
namespace {

using test::error_of;
using test::has;

constexpr GptOptions kSmall{
    .vocabulary = 50,
    .max_length = 16,
    .width = 24,
    .num_layers = 2,
    .num_heads = 3,
    .dropout = 0.2};

int64_t numel_of(const torch::nn::Module& module) {
  int64_t sum = 0;
  for (const auto& parameter : module.parameters()) {
    sum += parameter.numel();
  }
  return sum;
}

TEST(Gpt, HasTheNamesAndSizesOfHuggingFace) {
  const Gpt gpt(kSmall);
  const auto parameters = gpt->named_parameters();
  std::set<std::string> names;
  for (const auto& item : parameters) {
    names.insert(item.key());
  }
  std::set<std::string> expected{
      "transformer.wte.weight",
      "transformer.wpe.weight",
      "transformer.ln_f.weight",
      "transformer.ln_f.bias"};
  for (const std::string layer : {"transformer.h.0.", "transformer.h.1."}) {
    for (const std::string module :
         {"ln_1",
          "attn.c_attn",
          "attn.c_proj",
          "ln_2",
          "mlp.c_fc",
          "mlp.c_proj"}) {
      expected.insert(layer + module + ".weight");
      expected.insert(layer + module + ".bias");
    }
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(
      parameters["transformer.h.0.attn.c_attn.weight"].sizes(),
      at::IntArrayRef({24, 72})); // in x out
  EXPECT_EQ(
      parameters["transformer.h.1.mlp.c_proj.weight"].sizes(),
      at::IntArrayRef({96, 24}));
}

TEST(Gpt, Gpt2Has124MillionParameters) {
  EXPECT_EQ(numel_of(*Gpt(GptOptions{})), 124439808);
}

TEST(Gpt, BeginsByGuessing) {
  torch::manual_seed(1);
  Gpt gpt(kSmall);
  gpt->eval();
  const auto tokens = test::random_ints(50, {4, 16}, 1);
  const auto loss = at::cross_entropy_loss(
      gpt->forward(tokens).view({-1, 50}), tokens.roll(-1, 1).view({-1}));
  EXPECT_NEAR(loss.item<double>(), std::log(50), 0.1);
}

TEST(Gpt, TokensDoNotSeeWhatComesAfterThem) {
  torch::manual_seed(2);
  Gpt gpt(kSmall);
  gpt->eval();
  const auto tokens = test::random_ints(50, {2, 10}, 2);
  auto changed = tokens.clone();
  changed.narrow(1, 7, 3).fill_(1);
  const auto before = gpt->forward(tokens).narrow(1, 0, 7);
  const auto after = gpt->forward(changed).narrow(1, 0, 7);
  EXPECT_TRUE(at::allclose(before, after, 1e-5, 1e-6));
}

TEST(Gpt, ACacheGivesTheSameLogits) {
  torch::manual_seed(3);
  Gpt gpt(kSmall);
  gpt->eval();
  const torch::NoGradGuard no_grad;
  const auto tokens = test::random_ints(50, {2, 12}, 3);
  const auto expected = gpt->forward(tokens);
  GptCache cache;
  int64_t begin = 0;
  for (const int64_t length : {5, 1, 1, 4, 1}) { // also several at once
    const auto logits = gpt->forward(tokens.narrow(1, begin, length), &cache);
    EXPECT_TRUE(
        at::allclose(logits, expected.narrow(1, begin, length), 1e-4, 1e-5))
        << begin;
    begin += length;
    EXPECT_EQ(cache.length(), begin);
  }
}

TEST(Gpt, DropoutIsOnlyInTraining) {
  torch::manual_seed(4);
  Gpt gpt(kSmall);
  const auto tokens = test::random_ints(50, {2, 10}, 4);
  EXPECT_FALSE(at::equal(gpt->forward(tokens), gpt->forward(tokens)));
  gpt->eval();
  EXPECT_TRUE(at::equal(gpt->forward(tokens), gpt->forward(tokens)));
}

TEST(Gpt, SizesThatDoNotFitAreRefused) {
  auto options = kSmall;
  options.num_heads = 5;
  EXPECT_TRUE(
      has(error_of([&] { const Gpt gpt(options); }),
          "a width of 24 cannot be divided among 5 heads"));
  options = kSmall;
  options.num_layers = 0;
  EXPECT_TRUE(
      has(error_of([&] { const Gpt gpt(options); }),
          "num_layers is 0, expected at least 1"));
  Gpt gpt(kSmall);
  const std::string text = error_of([&] {
    gpt->forward(at::zeros({1, 17}, at::kLong));
  });
  EXPECT_TRUE(has(text, "17 tokens, expected at most 16")) << text;
}

} // namespace
} // namespace zero::models

// Patterns of parameters' names.
#include "optim/glob.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace zero::optim {
namespace {

TEST(Glob, WithoutWildcardsANameMatchesItself) {
  EXPECT_TRUE(matches("layers.0.bias", "layers.0.bias"));
  EXPECT_FALSE(matches("layers.0.bias", "layers.0.bia"));
  EXPECT_FALSE(matches("layers.0.bias", "layers.0.biases"));
  EXPECT_FALSE(matches("bias", "layers.0.bias"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Glob, AStarIsAnyTextAndNone) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "layers.0.bias"));
  EXPECT_TRUE(matches("*.bias", "layers.0.bias"));
  EXPECT_TRUE(matches("layers.*", "layers.0.bias"));
  EXPECT_TRUE(matches("layers.*.bias", "layers.0.attention.bias"));
  EXPECT_TRUE(matches("bias*", "bias"));
  EXPECT_TRUE(matches("**bias**", "bias"));
  EXPECT_TRUE(matches("*norm*weight", "layers.0.norm1.weight"));
  EXPECT_FALSE(matches("*.bias", "bias"));
  EXPECT_FALSE(matches("layers.*.bias", "layers.0.weight"));
  EXPECT_FALSE(matches("*norm*weight", "layers.0.norm1.weights"));
}

TEST(Glob, AStarTakesMoreWhenTheRestDoesNotFit) {
  EXPECT_TRUE(matches("*ab", "aab"));
  EXPECT_TRUE(matches("a*ab*c", "aaabxabc"));
  EXPECT_TRUE(matches("*a*b*a", "xxabab.ba"));
  EXPECT_FALSE(matches("*a*b*a", "xxabab.bb"));
}

TEST(Glob, AQuestionMarkIsOneCharacter) {
  EXPECT_TRUE(matches("layers.?.bias", "layers.0.bias"));
  EXPECT_FALSE(matches("layers.?.bias", "layers.10.bias"));
  EXPECT_FALSE(matches("layers.?.bias", "layers..bias"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_TRUE(matches("*?", "a"));
  EXPECT_FALSE(matches("*?", ""));
}

TEST(Glob, ManyStarsAreNoMatterOfPatience) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) {
    pattern += "*a";
  }
  const std::string name(100'000, 'a');
  EXPECT_TRUE(matches(pattern, name));
  EXPECT_FALSE(matches(pattern + "b", name));
}

// By definition, and with all patience.
bool by_definition(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) {
    return name.empty();
  }
  if (pattern[0] == '*') {
    return by_definition(pattern.substr(1), name) ||
        (!name.empty() && by_definition(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
      by_definition(pattern.substr(1), name.substr(1));
}

TEST(Glob, IsWhatItIsByDefinition) {
  std::mt19937 random(1);
  const auto text = [&](std::string_view letters, size_t most) {
    std::string result(random() % (most + 1), ' ');
    for (char& letter : result) {
      letter = letters[random() % letters.size()];
    }
    return result;
  };
  int num_matches = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::string pattern = text("ab?**", 7);
    const std::string name = text("ab", 8);
    const bool expected = by_definition(pattern, name);
    num_matches += expected ? 1 : 0;
    ASSERT_EQ(matches(pattern, name), expected) << pattern << " " << name;
  }
  EXPECT_GT(num_matches, 10'000);
}

} // namespace
} // namespace zero::optim

#include "data/choose_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace zero::data {
namespace {

TEST(ChooseTokenizer, MakesTheOneThatIsNamed) {
  EXPECT_EQ(choose_tokenizer({}, "abca")->vocabulary(), 3);
  EXPECT_EQ(
      choose_tokenizer({.kind = TokenizerKind::byte}, "")->vocabulary(), 256);
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "bpe";
  const auto tokenizer = choose_tokenizer(
      {.kind = TokenizerKind::gpt2,
       .vocab = folder / "vocab.json",
       .merges = folder / "merges.txt"},
      "");
  EXPECT_EQ(tokenizer->vocabulary(), 557);
}

} // namespace
} // namespace zero::data

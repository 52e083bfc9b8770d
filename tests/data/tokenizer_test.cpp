#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/error_of.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;
using Tokens = std::vector<int64_t>;

TEST(Tokenizer, BytesAreThemselves) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  std::string all;
  for (int c = 0; c < 256; ++c) {
    all += static_cast<char>(c);
  }
  const auto tokens = tokenizer->encode(all);
  EXPECT_EQ(tokens.back(), 255);
  EXPECT_EQ(tokenizer->decode(tokens), all);
  EXPECT_TRUE(has(error_of([&] { tokenizer->decode({256}); }), "no token 256"));
}

TEST(Tokenizer, CharactersAreInTheOrderOfTheirCodePoints) {
  const auto tokenizer = make_character_tokenizer("banana, \xC3\xA4\n");
  EXPECT_EQ(tokenizer->vocabulary(), 7); // \n, space, comma, a, b, n, ae
  EXPECT_EQ(
      tokenizer->encode("\n ,abn\xC3\xA4"), (Tokens{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tokenizer->decode({4, 3, 6}), "ba\xC3\xA4");
}

TEST(Tokenizer, BytesThatAreNoCharactersStandForThemselves) {
  const std::string odd = "\xC3(\xE2\x82\xFF\xF0\x9F\x98\x80\xE2";
  const auto tokenizer = make_character_tokenizer(odd);
  const auto tokens = tokenizer->encode(odd);
  EXPECT_EQ(tokens.size(), 7); // one of them has four bytes
  EXPECT_EQ(tokenizer->decode(tokens), odd);
}

TEST(Tokenizer, WhatItDoesNotKnowIsNamed) {
  const auto tokenizer = make_character_tokenizer("abc");
  const std::string text = error_of([&] { tokenizer->encode("abxc"); });
  EXPECT_TRUE(has(text, "'x' at byte 2 is not in the vocabulary of 3")) << text;
  EXPECT_TRUE(
      has(error_of([&] {
            tokenizer->decode({0, -1});
          }),
          "no token -1"));
  EXPECT_TRUE(has(error_of([] { make_character_tokenizer(""); }), "got none"));
}

TEST(Tokenizer, ACharacterThatIsCutIsLeftForTheNextPiece) {
  EXPECT_EQ(without_cut_character("ab"), "ab");
  EXPECT_EQ(without_cut_character(""), "");
  EXPECT_EQ(without_cut_character("a\u00e9"), "a\u00e9");
  EXPECT_EQ(without_cut_character("a\xC3"), "a");
  EXPECT_EQ(without_cut_character("a\xF0\x9F\x98"), "a");
  EXPECT_EQ(without_cut_character("a\xF0\x9F\x98\x80"), "a\xF0\x9F\x98\x80");
  EXPECT_EQ(without_cut_character("\x80\x80\x80"), "\x80\x80\x80");
  const auto characters = make_character_tokenizer("a\u00e9");
  EXPECT_EQ(characters->settled_prefix("a\xC3"), 1);
  EXPECT_EQ(make_byte_tokenizer()->settled_prefix("a\xC3"), 2);
}

} // namespace
} // namespace zero::data

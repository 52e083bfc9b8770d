// Defines choose_tokenizer(): the tokenizer that a user names, for what makes
// tokens of text.
//
//   auto tokenizer = choose_tokenizer({.kind = TokenizerKind::byte}, text);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace zero::data {

enum class TokenizerKind { character, byte, gpt2 };

struct TokenizerChoice {
  TokenizerKind kind = TokenizerKind::character;
  std::optional<std::string> vocab = {}; // gpt2: vocab.json
  std::optional<std::string> merges = {}; // gpt2: merges.txt
};

// `text` has all characters that a character tokenizer is to know; the others
// do not look at it. Requires: gpt2 has both files. Throws: as
// make_character_tokenizer() and read_bpe_tokenizer() do.
std::unique_ptr<Tokenizer> choose_tokenizer(
    const TokenizerChoice& choice,
    std::string_view text);

TokenizerKind kind_of(const Tokenizer& tokenizer);

// Whether each token of one is the same text as that of the other.
bool have_same_tokens(const Tokenizer& one, const Tokenizer& other);

} // namespace zero::data

#include "data/choose_tokenizer.h"

#include "data/bpe_tokenizer.h"

namespace zero::data {

std::unique_ptr<Tokenizer> choose_tokenizer(
    const TokenizerChoice& choice,
    std::string_view text) {
  switch (choice.kind) {
    case TokenizerKind::byte:
      return make_byte_tokenizer();
    case TokenizerKind::gpt2:
      return read_bpe_tokenizer(choice.vocab.value(), choice.merges.value());
    case TokenizerKind::character:
      break;
  }
  return make_character_tokenizer(text);
}

TokenizerKind kind_of(const Tokenizer& tokenizer) {
  const TokenizerParts parts = tokenizer.parts();
  return std::holds_alternative<CharacterParts>(parts)
      ? TokenizerKind::character
      : std::holds_alternative<ByteParts>(parts) ? TokenizerKind::byte
                                                 : TokenizerKind::gpt2;
}

bool have_same_tokens(const Tokenizer& one, const Tokenizer& other) {
  if (one.vocabulary() != other.vocabulary()) {
    return false;
  }
  for (int64_t token = 0; token < one.vocabulary(); ++token) {
    if (one.decode({token}) != other.decode({token})) {
      return false;
    }
  }
  return true;
}

} // namespace zero::data

// Defines Tokenizer: text as numbers, and back.
//
//   auto tokenizer = make_character_tokenizer(text);
//   std::vector<int64_t> ids = tokenizer->encode("To be");
//   tokenizer->decode(ids); // "To be"
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace zero::data {

// What a tokenizer is made of, by which it can be kept and made again: see
// data/tokenizer_folder.h.
struct ByteParts {};
struct CharacterParts {
  std::vector<std::string> characters; // by their tokens
};
struct BpeParts {
  std::string vocab; // all of vocab.json
  std::string merges; // all of merges.txt
};
using TokenizerParts = std::variant<ByteParts, CharacterParts, BpeParts>;

// Any number of threads may use one at the same time.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocabulary() const = 0;

  // Throws: ConfigError for text that has no tokens.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;

  // How much of the beginning of a text has the same tokens whatever follows,
  // so that a text can be encoded piece by piece.
  virtual size_t settled_prefix(std::string_view text) const = 0;

  // Throws: ConfigError for a number that is no token.
  virtual std::string decode(const std::vector<int64_t>& tokens) const = 0;

  // The token that stands between two texts, if there is one. No text is
  // encoded as it.
  virtual std::optional<int64_t> end_of_text() const = 0;

  virtual TokenizerParts parts() const = 0;
};

// A token for each byte: 256, whatever the text.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// A token for each character of the text, in the order of their code points.
// Throws: ConfigError if the text is empty.
std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text);

// The same of characters whose tokens are their places in the list.
// Requires: each is as first_character() has it, and none is there twice.
std::unique_ptr<Tokenizer> make_tokenizer_of(
    std::vector<std::string> characters);

// The first character of UTF-8, by its bytes; a byte that is not part of one
// stands for itself. Requires: the text is not empty.
std::string_view first_character(std::string_view text);

// The text without the beginning of a character at its end, if there is one.
std::string_view without_cut_character(std::string_view text);

// Whether the text begins with a byte that is not part of a character.
// Requires: as above.
inline bool begins_outside_utf8(std::string_view text) {
  return static_cast<unsigned char>(text[0]) >= 0x80 &&
      first_character(text).size() == 1;
}

} // namespace zero::data

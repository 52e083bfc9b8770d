// Defines Tokenizer: text as numbers, and back.
//
//   auto tokenizer = make_character_tokenizer(text);
//   std::vector<int64_t> ids = tokenizer->encode("To be");
//   tokenizer->decode(ids); // "To be"
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zero::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocabulary() const = 0;

  // Throws: ConfigError for text that has no tokens.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;

  // Throws: ConfigError for a number that is no token.
  virtual std::string decode(const std::vector<int64_t>& tokens) const = 0;
};

// A token for each byte: 256, whatever the text.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// A token for each character of the text, in the order of their code points.
// Characters are those of UTF-8; a byte that is not part of one stands for
// itself. Throws: ConfigError if the text is empty.
std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text);

} // namespace zero::data

#include "data/tokenizer.h"

#include <map>
#include <set>
#include <utility>

#include "base/error.h"

namespace zero::data {

namespace {

void check_token(int64_t token, int64_t vocabulary) {
  if (token < 0 || token >= vocabulary) {
    throw ConfigError(c10::str(
        "there is no token ", token, " in a vocabulary of ", vocabulary));
  }
}

// How long a character of UTF-8 is that begins with this byte; 1 if none does.
size_t announced_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80          ? 1
      : (byte & 0xE0) == 0xC0 ? 2
      : (byte & 0xF0) == 0xE0 ? 3
      : (byte & 0xF8) == 0xF0 ? 4
                              : 1;
}

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary() const override {
    return 256;
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) {
      tokens.push_back(static_cast<unsigned char>(c));
    }
    return tokens;
  }

  size_t settled_prefix(std::string_view text) const override {
    return text.size();
  }

  std::string decode(const std::vector<int64_t>& tokens) const override {
    std::string text;
    for (const int64_t token : tokens) {
      check_token(token, vocabulary());
      text += static_cast<char>(token);
    }
    return text;
  }

  std::optional<int64_t> end_of_text() const override {
    return std::nullopt;
  }

  TokenizerParts parts() const override {
    return ByteParts{};
  }
};

class CharacterTokenizer final : public Tokenizer {
 public:
  explicit CharacterTokenizer(std::vector<std::string> characters)
      : characters_(std::move(characters)) {
    for (size_t i = 0; i < characters_.size(); ++i) {
      tokens_[characters_[i]] = static_cast<int64_t>(i);
    }
  }

  int64_t vocabulary() const override {
    return static_cast<int64_t>(characters_.size());
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> tokens;
    tokens.reserve(text.size());
    for (size_t place = 0; place < text.size();) {
      const auto character = first_character(text.substr(place));
      const auto found = tokens_.find(character);
      if (found == tokens_.end()) {
        throw ConfigError(c10::str(
            "the character '",
            character,
            "' at byte ",
            place,
            " is not in the vocabulary of ",
            vocabulary(),
            " characters. Fix: leave it out, or train with text that has it"));
      }
      tokens.push_back(found->second);
      place += character.size();
    }
    return tokens;
  }

  size_t settled_prefix(std::string_view text) const override {
    return without_cut_character(text).size();
  }

  std::string decode(const std::vector<int64_t>& tokens) const override {
    std::string text;
    for (const int64_t token : tokens) {
      check_token(token, vocabulary());
      text += characters_[static_cast<size_t>(token)];
    }
    return text;
  }

  std::optional<int64_t> end_of_text() const override {
    return std::nullopt;
  }

  TokenizerParts parts() const override {
    return CharacterParts{characters_};
  }

 private:
  std::vector<std::string> characters_;
  std::map<std::string, int64_t, std::less<>> tokens_;
};

} // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text) {
  if (text.empty()) {
    throw ConfigError(
        "a character tokenizer needs text that has characters, got none");
  }
  std::set<std::string> characters; // UTF-8 has the order of code points
  while (!text.empty()) {
    const auto character = first_character(text);
    characters.emplace(character);
    text.remove_prefix(character.size());
  }
  return make_tokenizer_of({characters.begin(), characters.end()});
}

std::unique_ptr<Tokenizer> make_tokenizer_of(
    std::vector<std::string> characters) {
  return std::make_unique<CharacterTokenizer>(std::move(characters));
}

std::string_view first_character(std::string_view text) {
  const auto byte = [&](size_t i) -> uint32_t {
    return static_cast<unsigned char>(text[i]);
  };
  const size_t length = announced_length(text[0]);
  if (length == 1 || length > text.size()) {
    return text.substr(0, 1);
  }
  uint32_t code = byte(0) & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return text.substr(0, 1);
    }
    code = code << 6 | (byte(i) & 0x3F);
  }
  // In more bytes than it needs, half of a pair of UTF-16, or past the last.
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_half = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || is_half || code > 0x10FFFF) {
    return text.substr(0, 1);
  }
  return text.substr(0, length);
}

std::string_view without_cut_character(std::string_view text) {
  constexpr size_t kLongest = 4;
  for (size_t missing = 1; missing < kLongest && missing <= text.size();
       ++missing) {
    const char byte = text[text.size() - missing];
    if (announced_length(byte) > missing) {
      return text.substr(0, text.size() - missing);
    }
    if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) {
      break; // a whole character begins here
    }
  }
  return text;
}

} // namespace zero::data

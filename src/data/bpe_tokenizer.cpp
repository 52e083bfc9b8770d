#include "data/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "config/parse_json.h"
#include "config/report.h"
#include "config/wording.h"
#include "data/word_splitter.h"

namespace zero::data {

namespace {

using config::JsonValue;
using TokenNumbers = std::unordered_map<std::string, int32_t>; // by bytes

constexpr size_t kMaxMergesBytes = size_t{16} << 20;
constexpr const char* kEndOfText = "<|endoftext|>";

template <class... What>
[[noreturn]] void refuse_bpe(
    const std::string& path,
    int line,
    const What&... what) {
  throw CorruptionError(c10::str(
      path,
      ":",
      line,
      ": ",
      what...,
      ". Fix: use the vocab.json and the merges.txt of one tokenizer, as they "
      "were published"));
}

// How much of the text is UTF-8 from its beginning on.
size_t utf8_prefix(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && !begins_outside_utf8(text.substr(length))) {
    length += first_character(text.substr(length)).size();
  }
  return length;
}

// ---- the characters that stand for bytes in both files ----

// A byte that is printed as a character of Latin-1 is that character; the 68
// others are those from U+0100 on, in their order.
constexpr size_t kNumByteCharacters = 256 + 68;

constexpr bool is_printed(size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::array<int, kNumByteCharacters> bytes_by_character() {
  std::array<int, kNumByteCharacters> bytes{};
  size_t next = 256;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!is_printed(byte)) {
      bytes[byte] = -1;
    }
    bytes[is_printed(byte) ? byte : next++] = static_cast<int>(byte);
  }
  return bytes;
}

// The byte, or -1 if the character stands for none.
int byte_of(std::string_view character) {
  static constexpr auto kBytes = bytes_by_character();
  const auto code_unit = [&](size_t i) -> size_t {
    return static_cast<unsigned char>(character[i]);
  };
  if (character.size() > 2 || begins_outside_utf8(character)) {
    return -1;
  }
  const size_t code = character.size() == 1
      ? code_unit(0)
      : (code_unit(0) & 0x1F) << 6 | (code_unit(1) & 0x3F);
  return code < kBytes.size() ? kBytes[code] : -1;
}

// The bytes of a token as the files write it.
std::string token_bytes(
    std::string_view written,
    const std::string& path,
    int line) {
  std::string bytes;
  for (std::string_view rest = written; !rest.empty();) {
    const auto character = first_character(rest);
    const int byte = byte_of(character);
    if (byte < 0) {
      refuse_bpe(
          path,
          line,
          "the token \"",
          config::printable(written, true),
          "\" has other characters than those that stand for bytes, such as "
          "U+0120 for a space");
    }
    bytes += static_cast<char>(byte);
    rest.remove_prefix(character.size());
  }
  return bytes;
}

// ---- vocab.json ----

// The bytes of each token. Numbers that are below their count and all different
// have no gaps.
std::vector<std::string> read_vocab(
    const std::string& text,
    const std::string& path) {
  config::Report report(path);
  const JsonValue root = config::parse_json(text, path, report);
  report.throw_if_any();
  if (!root.is_object() || root.keys.empty()) {
    refuse_bpe(path, root.line, "expected an object of tokens");
  }
  const size_t count = root.keys.size();
  constexpr size_t kNone = -1;
  std::vector<size_t> keys(count, kNone); // by number
  std::vector<std::string> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    const JsonValue& value = root.elements[i];
    const auto refuse = [&](const auto&... what) {
      const std::string name = config::in_quotes(root.keys[i]);
      refuse_bpe(path, value.line, "the token ", name, " has ", what...);
    };
    const bool is_number = value.kind == JsonValue::Kind::integer;
    if (!is_number || value.integer < 0 ||
        static_cast<size_t>(value.integer) >= count) {
      refuse(value.describe(), ", expected a number from 0 to ", count - 1);
    }
    const auto number = static_cast<size_t>(value.integer);
    if (keys[number] != kNone) {
      const std::string other = config::in_quotes(root.keys[keys[number]]);
      refuse(number, ", which ", other, " has too");
    }
    keys[number] = i;
    tokens[number] = token_bytes(root.keys[i], path, value.line);
  }
  return tokens;
}

std::array<int32_t, 256> find_bytes(
    const TokenNumbers& numbers,
    const std::string& path) {
  std::array<int32_t, 256> tokens{};
  for (size_t byte = 0; byte < tokens.size(); ++byte) {
    const auto found = numbers.find(std::string(1, static_cast<char>(byte)));
    if (found == numbers.end()) {
      refuse_bpe(path, 1, "there is no token for the byte ", byte);
    }
    tokens[byte] = found->second;
  }
  return tokens;
}

// ---- merges.txt ----

struct Merge {
  int32_t rank; // the lowest is merged first
  int32_t token; // what the two become
};

// By both tokens.
class Merges {
 public:
  Merges(
      std::string_view text,
      const TokenNumbers& numbers,
      const std::string& path) {
    if (text.size() > kMaxMergesBytes) {
      refuse_bpe(path, 1, "more than ", kMaxMergesBytes, " bytes of merges");
    }
    for (int line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view merge = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (merge.ends_with('\r')) {
        merge.remove_suffix(1);
      }
      const bool is_version = line == 1 && merge.starts_with("#version");
      if (!merge.empty() && !is_version) {
        add(merge, numbers, path, line);
      }
    }
  }

  const Merge* find(int32_t left, int32_t right) const {
    const auto found = merges_.find(key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 |
        static_cast<uint32_t>(right);
  }

  void add(
      std::string_view merge,
      const TokenNumbers& numbers,
      const std::string& path,
      int line) {
    const auto refuse = [&](const char* what) {
      const bool is_utf8 = utf8_prefix(merge) == merge.size();
      refuse_bpe(
          path, line, c10::str('"', config::printable(merge, !is_utf8), what));
    };
    const size_t space = merge.find(' ');
    if (space == 0 || space >= merge.size() - 1) {
      refuse("\", expected two tokens with a space between them");
    }
    const auto number = [&](const std::string& bytes, const char* missing) {
      const auto found = numbers.find(bytes);
      if (found == numbers.end()) {
        refuse(missing);
      }
      return found->second;
    };
    const auto left = token_bytes(merge.substr(0, space), path, line);
    const auto right = token_bytes(merge.substr(space + 1), path, line);
    const uint64_t pair =
        key(number(left, "\": the vocabulary does not have the first"),
            number(right, "\": the vocabulary does not have the second"));
    const int32_t token =
        number(left + right, "\": the vocabulary does not have both as one");
    if (!merges_.try_emplace(pair, Merge{line, token}).second) {
      refuse("\" is there twice");
    }
  }

  std::unordered_map<uint64_t, Merge> merges_;
};

// ---- tokens ----

// The tokens of one text, word by word.
class Encoding {
 public:
  Encoding(const Merges& merges, const std::array<int32_t, 256>& byte_tokens)
      : merges_(merges), byte_tokens_(byte_tokens) {}

  // Requires: the word stays where it is.
  void add(std::string_view word) {
    if (const auto seen = seen_.find(word); seen != seen_.end()) {
      const auto [begin, count] = seen->second;
      const size_t size = tokens_.size();
      tokens_.resize(size + count);
      std::copy_n(&tokens_[begin], count, &tokens_[size]);
      return;
    }
    const size_t begin = tokens_.size();
    merge(word);
    if (seen_.size() == kMaxSeen) {
      seen_.clear(); // a long text goes on to other words
    }
    seen_.emplace(word, Range{begin, tokens_.size() - begin});
  }

  std::vector<int64_t> take() {
    return std::move(tokens_);
  }

 private:
  static constexpr size_t kMaxSeen = size_t{1} << 16;
  static constexpr int32_t kGone = -1; // part of the token before it

  struct Range {
    size_t begin;
    size_t count;
  };
  // Of the word, in a list: one that is merged stays in its place.
  struct Part {
    int32_t token;
    size_t previous;
    size_t next;
  };
  using Candidate = std::pair<int32_t, size_t>; // rank, place of the first

  // The lowest rank first, and of one rank from the left. The queue keeps that
  // fast for a word of any length.
  void merge(std::string_view word) {
    parts_.clear();
    for (size_t i = 0; i < word.size(); ++i) {
      const auto byte = static_cast<unsigned char>(word[i]);
      parts_.push_back({byte_tokens_[byte], i - 1, i + 1});
    }
    for (size_t i = 0; i < word.size(); ++i) {
      propose(i);
    }
    while (!candidates_.empty()) {
      const auto [rank, place] = candidates_.top();
      candidates_.pop();
      const Merge* merge = merge_at(place);
      if (merge == nullptr || merge->rank != rank) {
        continue; // one of the two has been merged with another
      }
      join(place, merge->token);
    }
    for (size_t i = 0; i < parts_.size(); i = parts_[i].next) {
      tokens_.push_back(parts_[i].token);
    }
  }

  // Of the part there and the next; nullptr if they stay apart.
  const Merge* merge_at(size_t place) const {
    const Part& part = parts_[place];
    return part.token == kGone || part.next == parts_.size()
        ? nullptr
        : merges_.find(part.token, parts_[part.next].token);
  }

  void propose(size_t place) {
    if (const Merge* merge = merge_at(place)) {
      candidates_.emplace(merge->rank, place);
    }
  }

  void join(size_t place, int32_t token) {
    Part& part = parts_[place];
    Part& gone = parts_[part.next];
    part.token = token;
    part.next = gone.next;
    gone.token = kGone;
    if (part.next < parts_.size()) {
      parts_[part.next].previous = place;
    }
    if (place > 0) {
      propose(part.previous);
    }
    propose(place);
  }

  const Merges& merges_;
  const std::array<int32_t, 256>& byte_tokens_;
  std::vector<int64_t> tokens_;
  std::unordered_map<std::string_view, Range> seen_; // where in tokens_
  std::vector<Part> parts_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>
      candidates_;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(
      BpeParts parts,
      const std::string& vocab_path,
      const std::string& merges_path)
      : parts_(std::move(parts)),
        tokens_(read_vocab(parts_.vocab, vocab_path)),
        numbers_(number(tokens_)),
        byte_tokens_(find_bytes(numbers_, vocab_path)),
        merges_(parts_.merges, numbers_, merges_path) {}

  int64_t vocabulary() const override {
    return static_cast<int64_t>(tokens_.size());
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    Encoding encoding(merges_, byte_tokens_);
    for_each_word(
        text, [&](std::string_view word, bool) { encoding.add(word); });
    return encoding.take();
  }

  // What follows can make the last word longer, and the last two into one: of
  // "'" and "l" it makes "'ll". White space at the end of a text is one word,
  // and elsewhere two, so none is left at the end.
  size_t settled_prefix(std::string_view text) const override {
    text = without_cut_character(text);
    size_t end = 0; // of the words so far
    size_t now = 0; // the longest that ends so, of them
    size_t without_one = 0; // the same without the last word
    size_t without_two = 0;
    for_each_word(text, [&](std::string_view word, bool is_space) {
      without_two = std::exchange(without_one, now);
      end += word.size();
      now = is_space ? now : end;
    });
    return without_two;
  }

  std::string decode(const std::vector<int64_t>& tokens) const override {
    std::string text;
    for (const int64_t token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        throw ConfigError(c10::str(
            "there is no token ", token, " in a vocabulary of ", vocabulary()));
      }
      text += tokens_[static_cast<size_t>(token)];
    }
    return text;
  }

  std::optional<int64_t> end_of_text() const override {
    const auto found = numbers_.find(kEndOfText);
    return found == numbers_.end() ? std::nullopt
                                   : std::optional<int64_t>(found->second);
  }

  TokenizerParts parts() const override {
    return parts_;
  }

 private:
  template <class Use>
  void for_each_word(std::string_view text, Use use) const {
    while (!text.empty()) {
      const size_t length = utf8_prefix(text);
      splitter_.split(text.substr(0, length), use);
      text.remove_prefix(length);
      if (!text.empty()) {
        use(text.substr(0, 1), false);
        text.remove_prefix(1);
      }
    }
  }

  static TokenNumbers number(const std::vector<std::string>& tokens) {
    TokenNumbers numbers;
    for (size_t i = 0; i < tokens.size(); ++i) {
      numbers.emplace(tokens[i], static_cast<int32_t>(i));
    }
    return numbers;
  }

  BpeParts parts_;
  std::vector<std::string> tokens_; // their bytes
  TokenNumbers numbers_;
  std::array<int32_t, 256> byte_tokens_;
  Merges merges_;
  WordSplitter splitter_;
};

} // namespace

std::unique_ptr<Tokenizer> read_bpe_tokenizer(
    const std::string& vocab_path,
    const std::string& merges_path) {
  return std::make_unique<BpeTokenizer>(
      BpeParts{
          base::read_file(
              vocab_path, "'" + vocab_path + "'", config::kMaxJsonBytes),
          base::read_file(
              merges_path, "'" + merges_path + "'", kMaxMergesBytes)},
      vocab_path,
      merges_path);
}

} // namespace zero::data

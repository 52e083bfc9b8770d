// Defines WordSplitter: text as GPT-2's tokenizer divides it before it looks
// for tokens.
//
//   splitter.split("It's  so", use); // "It", "'s", " ", " so"
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace zero::data {

class WordSplitter {
 public:
  WordSplitter();

  // Calls `use` with each word and whether it is white space. Requires: the
  // text is UTF-8, which PCRE2 would otherwise check up to the end of the text
  // for each word.
  using Use = std::function<void(std::string_view word, bool is_space)>;
  void split(std::string_view text, const Use& use) const;

 private:
  std::shared_ptr<void> code_; // PCRE2's
};

} // namespace zero::data

#include "data/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"

namespace zero::data {

namespace {

// GPT-2's pattern. White space is written out, since PCRE2's own has U+180E
// too. It is the only part that ever goes back, and by one character, so no
// text takes more time than is in proportion to its length. Words of white
// space are its first group.
constexpr const char* kWordPattern =
    R"('(?:[sdmt]|ll|ve|re)| ?+\p{L}++| ?+\p{N}++| ?+[^\s\x85\p{Z}\p{L}\p{N}]++)"
    R"(|([\s\x85\p{Z}]+(?![^\s\x85\p{Z}])|[\s\x85\p{Z}]++))";

const pcre2_code* compiled(const std::shared_ptr<void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

} // namespace

WordSplitter::WordSplitter() {
  int error = 0;
  size_t place = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(kWordPattern),
      PCRE2_ZERO_TERMINATED,
      PCRE2_UTF | PCRE2_ANCHORED,
      &error,
      &place,
      nullptr);
  ZERO_CHECK(code != nullptr, "error ", error, " at ", place);
  // Where it may not make code at run time, the pattern is interpreted.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  code_ = std::shared_ptr<void>(code, [](void* compiled) {
    pcre2_code_free(static_cast<pcre2_code*>(compiled));
  });
}

void WordSplitter::split(std::string_view text, const Use& use) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create(2, nullptr), pcre2_match_data_free);
  while (!text.empty()) {
    const int count = pcre2_match(
        compiled(code_),
        reinterpret_cast<PCRE2_SPTR>(text.data()),
        text.size(),
        0,
        PCRE2_NO_UTF_CHECK,
        match.get(),
        nullptr);
    ZERO_CHECK(count > 0, "every character is in a word, got ", count);
    const size_t length = pcre2_get_ovector_pointer(match.get())[1];
    use(text.substr(0, length), count == 2);
    text.remove_prefix(length);
  }
}

} // namespace zero::data

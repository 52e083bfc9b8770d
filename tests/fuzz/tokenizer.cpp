// GPT-2's tokenizer: vocab.json, merges.txt and a text, with a line of three
// dashes between them. What can be read encodes every text, and gives it back.
#include "data/bpe_tokenizer.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kBetween = "\n---\n";
  const std::string_view input = zero::fuzz::text_of(data, size);
  const size_t first = input.find(kBetween);
  const size_t second = first == std::string_view::npos
      ? first
      : input.find(kBetween, first + kBetween.size());
  if (second == std::string_view::npos) {
    return 0;
  }
  const size_t merges_begin = first + kBetween.size();
  const zero::fuzz::InputFile vocab(input.substr(0, first));
  const zero::fuzz::InputFile merges(
      input.substr(merges_begin, second - merges_begin));
  const std::string text(input.substr(second + kBetween.size()));
  return zero::fuzz::try_input([&] {
    const auto tokenizer =
        zero::data::read_bpe_tokenizer(vocab.path(), merges.path());
    if (tokenizer->decode(tokenizer->encode(text)) != text) {
      std::abort();
    }
  });
}

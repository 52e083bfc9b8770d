// Files of tokens, in all formats: all tokens are read.
#include "data/token_file.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const zero::fuzz::InputFile file(zero::fuzz::text_of(data, size));
  return zero::fuzz::try_input([&] {
    const zero::data::TokenFile tokens(file.path());
    const int64_t count = tokens.num_tokens();
    tokens.read(count / 2, count - count / 2, 50'257);
    tokens.read(0, count, 50'257);
  });
}

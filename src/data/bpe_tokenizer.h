// Defines read_bpe_tokenizer(): GPT-2's tokenizer, whose tokens are bytes and
// what was merged of them, pair by pair.
//
//   auto tokenizer = read_bpe_tokenizer("vocab.json", "merges.txt");
//   tokenizer->encode("Hello world"); // 15496, 995 with GPT-2's files
//   tokenizer->end_of_text(); // 50256
//
// Text is split into words first: letters, digits or other characters, each
// with the space before them, and what follows an apostrophe. Which characters
// are letters is the word of PCRE2, whose version of Unicode may lack some that
// have become letters of late.
//
// Every text has tokens, and decoding gives back the same bytes. A byte that is
// not UTF-8 is a word of its own, and ends the word before it as the end of the
// text does. "<|endoftext|>" in a text is encoded as any other text.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace zero::data {

// The files are those of Hugging Face and OpenAI (who name them encoder.json
// and vocab.bpe), with or without the line "#version".
// Throws: IoError if one cannot be read; ConfigError if the vocabulary is not
// JSON; CorruptionError if the files cannot be those of one tokenizer.
std::unique_ptr<Tokenizer> read_bpe_tokenizer(
    const std::string& vocab_path,
    const std::string& merges_path);

} // namespace zero::data

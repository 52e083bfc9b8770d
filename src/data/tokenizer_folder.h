// Defines how a tokenizer is kept beside the model that was trained with it.
//
//   write_tokenizer(*tokenizer, "models/first");
//   auto tokenizer = read_tokenizer("models/first");
//
// GPT-2's is kept as Hugging Face does, in vocab.json and merges.txt. The
// others are in libzero_tokenizer.json:
//
//   {"type": "byte"}
//   {"type": "character", "characters": ["\n", " ", "a", 255]}
//
// where the place of a character is its token, and a number is a byte that is
// not UTF-8. That file counts if all three are there.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace zero::data {

// Files that are there already are replaced: at any time there is the old one
// or the new one, never a part. Requires: the folder is there. Throws: IoError.
void write_tokenizer(const Tokenizer& tokenizer, const std::string& folder);

// What is there of one.
void remove_tokenizer(const std::string& folder);

bool has_tokenizer(const std::string& folder);

// Throws: IoError; ConfigError if the folder has no tokenizer or what is in it
// is not JSON; CorruptionError if it is that of no tokenizer.
std::unique_ptr<Tokenizer> read_tokenizer(const std::string& folder);

} // namespace zero::data

// Defines the forms that files of tokens have, for who reads and who writes
// them.
#pragma once

#include <array>
#include <cstdint>

namespace zero::data {

// llm.c's: 256 numbers of 32 bits, of which the third is how many tokens
// follow.
struct TokenHeader {
  uint32_t magic;
  uint32_t version;
  int64_t token_bytes;
};
inline constexpr std::array<TokenHeader, 2> kTokenHeaders{
    {{20240520, 1, 2}, {20240801, 7, 4}}};
inline constexpr int64_t kTokenHeaderBytes = 1024;

// nanoGPT's files have no header, and numbers of 16 bits.
inline constexpr int64_t kPlainTokenBytes = 2;

} // namespace zero::data

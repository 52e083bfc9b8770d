#include "base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

namespace zero::base {
namespace {

// The bytes that xxHash's own tests are about.
std::string bytes_of_xxhash(size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = 2654435761;
  for (char& byte : bytes) {
    byte = static_cast<char>(state >> 56);
    state *= 11400714785074694797U;
  }
  return bytes;
}

// Other programs are to find the same: these are in xxHash's tests. It takes
// other ways from 17, 129 and 241 bytes on.
TEST(Checksum, IsXxh3) {
  constexpr std::array<std::pair<size_t, uint64_t>, 7> kKnown{{
      {0, 0x2d06800538d394c2},
      {1, 0xc44bdff4074eecdb},
      {12, 0xa713daf0dfbb77e7},
      {80, 0xbcdefbbb2c47c90a},
      {195, 0xcd94217ee362ec3a},
      {403, 0xcdeb804d65c6dea4},
      {2367, 0xcb37aeb9e5d361ed},
  }};
  for (const auto& [size, value] : kKnown) {
    EXPECT_EQ(checksum_of(bytes_of_xxhash(size)), value) << size << " bytes";
  }
}

TEST(Checksum, InPiecesItIsThatOfTheWhole) {
  for (const size_t size : {0, 1, 16, 17, 240, 241, 1024, 1025, 100'003}) {
    const std::string bytes = bytes_of_xxhash(size);
    for (const size_t piece : {1, 7, 64, 255, 256, 257, 4099}) {
      Checksum checksum;
      for (size_t at = 0; at < size; at += piece) {
        checksum.add(bytes.data() + at, std::min(piece, size - at));
      }
      EXPECT_EQ(checksum.value(), checksum_of(bytes))
          << size << " bytes in pieces of " << piece;
    }
  }
}

TEST(Checksum, GoesOnAfterItWasAskedAndBeginsAnewAfterAReset) {
  const std::string bytes = bytes_of_xxhash(1000);
  Checksum checksum;
  checksum.add(bytes.data(), 300);
  EXPECT_EQ(checksum.value(), checksum_of(bytes.substr(0, 300)));
  checksum.add(bytes.data() + 300, 700);
  EXPECT_EQ(checksum.value(), checksum_of(bytes));
  checksum.reset();
  EXPECT_EQ(checksum.value(), checksum_of(""));
  checksum.add(bytes.data(), 300);
  EXPECT_EQ(checksum.value(), checksum_of(bytes.substr(0, 300)));
}

TEST(Checksum, EveryBitCounts) {
  std::string bytes = bytes_of_xxhash(300);
  const uint64_t whole = checksum_of(bytes);
  for (char& byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(byte ^ (1 << bit));
      EXPECT_NE(checksum_of(bytes), whole);
      byte = static_cast<char>(byte ^ (1 << bit));
    }
  }
}

TEST(Checksum, TheTextHasAllDigits) {
  EXPECT_EQ(checksum_text(0), "0000000000000000");
  EXPECT_EQ(checksum_text(0x2d06800538d394c), "02d06800538d394c");
  EXPECT_EQ(checksum_text(UINT64_MAX), "ffffffffffffffff");
}

} // namespace
} // namespace zero::base

#include "data/token_file.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string header(uint32_t magic, uint32_t version, uint32_t count) {
  std::vector<uint32_t> numbers(256);
  numbers[0] = magic;
  numbers[1] = version;
  numbers[2] = count;
  return bytes_of(numbers);
}

class TokenFileTest : public testing::Test {
 protected:
  void write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  std::string refused() {
    return error_of([&] { const TokenFile file(path_); });
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.path() / "tokens.bin";
};

TEST_F(TokenFileTest, AllThreeFormatsAreRead) {
  const std::string shorts = bytes_of(std::vector<uint16_t>{1, 50256, 3, 4});
  const std::string longs = bytes_of(std::vector<uint32_t>{1, 50256, 3, 4});
  for (const auto& bytes :
       {shorts,
        header(20240520, 1, 4) + shorts,
        header(20240801, 7, 4) + longs}) {
    write(bytes);
    const TokenFile file(path_);
    EXPECT_EQ(file.num_tokens(), 4);
    EXPECT_TRUE(
        at::equal(file.read(1, 2, 50257), at::tensor({50256, 3}, at::kLong)));
    EXPECT_EQ(file.read(4, 0, 50257).numel(), 0);
  }
}

TEST_F(TokenFileTest, WhatIsNotWholeIsRefused) {
  EXPECT_TRUE(has(refused(), "cannot read")) << refused();
  write("");
  EXPECT_TRUE(has(refused(), "it is empty")) << refused();
  write("abc");
  EXPECT_TRUE(has(refused(), "half a token")) << refused();
  write(header(20240520, 1, 3).substr(0, 100));
  EXPECT_TRUE(has(refused(), "within its header")) << refused();
  write(header(20240520, 2, 0));
  EXPECT_TRUE(has(refused(), "version 2, expected 1")) << refused();
  write(header(20240520, 1, 3) + "abcd");
  EXPECT_TRUE(has(refused(), "says 3 tokens, it has 4 bytes")) << refused();
}

TEST_F(TokenFileTest, TokensBeyondTheVocabularyAreNamed) {
  write(bytes_of(std::vector<uint16_t>{1, 2, 300}));
  const TokenFile file(path_);
  const std::string text = error_of([&] { file.read(0, 3, 256); });
  EXPECT_TRUE(has(text, "has 300 as token 2, the vocabulary has 256")) << text;
  EXPECT_TRUE(
      has(error_of([&] { file.read(2, 2, 256); }),
          "has 3 tokens, expected 2 from 2 on"));
}

TEST_F(TokenFileTest, AllTokensCanBeCheckedAtOnce) {
  write(bytes_of<uint16_t>({1, 2, 9, 3}));
  const TokenFile file(path_);
  file.check_all(10);
  const std::string text = error_of([&] { file.check_all(9); });
  EXPECT_TRUE(has(text, "has 9 as token 2, the vocabulary has 9")) << text;
}

} // namespace
} // namespace zero::data

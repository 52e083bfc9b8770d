#include "data/token_writer.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "data/token_file.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

TEST(TokenWriter, WhatIsWrittenIsReadBack) {
  const test::TemporaryFolder folder;
  struct Case {
    TokenFormat format;
    int64_t vocabulary;
    uintmax_t bytes;
  };
  for (const auto& [format, vocabulary, bytes] :
       {Case{TokenFormat::nanogpt, 65536, 10},
        Case{TokenFormat::llmc, 65536, 1034},
        Case{TokenFormat::llmc, 65537, 1044}}) {
    const std::string path = folder.path() / "tokens.bin";
    {
      TokenWriter writer(path, format, vocabulary);
      writer.add({1, 2, 3});
      writer.add({65535, 0});
      EXPECT_EQ(writer.num_tokens(), 5);
      writer.commit();
    }
    EXPECT_EQ(std::filesystem::file_size(path), bytes);
    const TokenFile file(path);
    ASSERT_EQ(file.num_tokens(), 5);
    EXPECT_TRUE(at::equal(
        file.read(0, 5, vocabulary),
        at::tensor({1, 2, 3, 65535, 0}, at::kLong)));
  }
}

TEST(TokenWriter, WithoutCommitNothingIsLeft) {
  const test::TemporaryFolder folder;
  {
    TokenWriter writer(folder.path() / "a.bin", TokenFormat::nanogpt, 10);
    writer.add({1});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenWriter, TokensThatDoNotFitAreRefused) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(test::has(
      test::error_of([&] {
        TokenWriter writer(
            folder.path() / "a.bin", TokenFormat::nanogpt, 65537);
      }),
      "choose the format llm.c"));
}

} // namespace
} // namespace zero::data

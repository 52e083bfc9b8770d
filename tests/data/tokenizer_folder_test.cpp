#include "data/tokenizer_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "data/bpe_tokenizer.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;

class TokenizerFolderTest : public testing::Test {
 protected:
  void write_own(const std::string& text) {
    std::ofstream(own_, std::ios::binary) << text;
  }
  std::string refused() {
    return error_of([&] { read_tokenizer(folder_); });
  }
  std::string in_file(const std::string& name) {
    return test::read_file(temporary_.path() / name);
  }
  std::set<std::string> files() {
    std::set<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(temporary_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  test::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
  std::string own_ = folder_ + "/libzero_tokenizer.json";
  std::filesystem::path bpe_ =
      std::filesystem::path(__FILE__).parent_path() / "bpe";
  std::unique_ptr<Tokenizer> gpt2_ =
      read_bpe_tokenizer(bpe_ / "vocab.json", bpe_ / "merges.txt");
};

TEST_F(TokenizerFolderTest, BytesAreKept) {
  write_tokenizer(*make_byte_tokenizer(), folder_);
  EXPECT_EQ(in_file("libzero_tokenizer.json"), "{\"type\":\"byte\"}\n");
  const auto tokenizer = read_tokenizer(folder_);
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_EQ(tokenizer->encode("\xFF"), (std::vector<int64_t>{255}));
}

TEST_F(TokenizerFolderTest, CharactersAreKeptWithTheirTokens) {
  write_tokenizer(*make_character_tokenizer("b\n\"\\a \xC3\xA4\xFF"), folder_);
  EXPECT_EQ(
      in_file("libzero_tokenizer.json"),
      "{\"type\":\"character\",\"characters\":[\"\\n\",\" \",\"\\\"\",\"\\\\\","
      "\"a\",\"b\",\"\xC3\xA4\",255]}\n");
  const auto tokenizer = read_tokenizer(folder_);
  EXPECT_EQ(
      tokenizer->encode("ab\xC3\xA4\xFF\n"),
      (std::vector<int64_t>{4, 5, 6, 7, 0}));
}

TEST_F(TokenizerFolderTest, CharactersMayBeInAnyOrder) {
  write_own(R"({"type": "character", "characters": ["z", 200, "a"]})");
  EXPECT_EQ(
      read_tokenizer(folder_)->encode("a\xC8z"),
      (std::vector<int64_t>{2, 1, 0}));
}

TEST_F(TokenizerFolderTest, BytesThatOnlyLookLikeUtf8AreKept) {
  // NUL, too many bytes, half of a pair of UTF-16, past the last, an emoji
  const std::string odd = std::string("\0", 1) +
      "\xC0\x80\xED\xA0\x80\xF4\x90\x80\x80\xF0\x9F\x98\x80";
  const auto before = make_character_tokenizer(odd);
  write_tokenizer(*before, folder_);
  const auto after = read_tokenizer(folder_);
  EXPECT_EQ(after->vocabulary(), before->vocabulary());
  EXPECT_EQ(after->encode(odd), before->encode(odd));
}

TEST_F(TokenizerFolderTest, Gpt2sIsKeptAsHuggingFaceDoes) {
  write_tokenizer(*gpt2_, folder_);
  EXPECT_EQ(files(), (std::set<std::string>{"merges.txt", "vocab.json"}));
  EXPECT_EQ(in_file("vocab.json"), test::read_file(bpe_ / "vocab.json"));
  EXPECT_EQ(in_file("merges.txt"), test::read_file(bpe_ / "merges.txt"));
  const std::string text = "the captain's lanterns";
  EXPECT_EQ(read_tokenizer(folder_)->encode(text), gpt2_->encode(text));
}

TEST_F(TokenizerFolderTest, TheLastOneWrittenIsRead) {
  write_tokenizer(*make_byte_tokenizer(), folder_);
  write_tokenizer(*gpt2_, folder_);
  EXPECT_EQ(read_tokenizer(folder_)->vocabulary(), gpt2_->vocabulary());
  write_tokenizer(*make_character_tokenizer("abc"), folder_);
  EXPECT_EQ(read_tokenizer(folder_)->vocabulary(), 3);
}

TEST_F(TokenizerFolderTest, WhatCannotBeWrittenLeavesNothingBehind) {
  const auto bytes = make_byte_tokenizer();
  const std::string missing =
      error_of([&] { write_tokenizer(*bytes, folder_ + "/none"); });
  EXPECT_TRUE(has(missing, "cannot write '" + folder_ + "/none/")) << missing;
  std::filesystem::create_directory(own_);
  const std::string taken = error_of([&] { write_tokenizer(*bytes, folder_); });
  EXPECT_TRUE(has(taken, "it is no regular file")) << taken;
  EXPECT_EQ(files(), (std::set<std::string>{"libzero_tokenizer.json"}));
}

TEST_F(TokenizerFolderTest, AFolderWithoutATokenizerIsRefused) {
  EXPECT_TRUE(has(refused(), "no tokenizer in '" + folder_)) << refused();
  std::filesystem::copy(bpe_ / "vocab.json", folder_);
  EXPECT_TRUE(has(refused(), "cannot read '" + folder_ + "/merges.txt'"))
      << refused();
}

TEST_F(TokenizerFolderTest, AFileThatCannotBeRightIsRefused) {
  const std::string list = "{\n\"type\": \"character\",\n\"characters\": ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ":1:1: empty"},
      {R"({"type")", ".json:1:"},
      {"[]", R"(:1: type is missing, expected "byte" or "character")"},
      {"{\n\"type\": \"word\"}", R"(:2: type is "word", expected)"},
      {R"({"type": 1})", ":1: type is 1, expected"},
      {R"({"type": "byte", "type": "byte"})", "given twice"},
      {R"({"type": "character"})", R"(:1: expected a list "characters")"},
      {list + "[]}", R"(expected a list "characters")"},
      {list + R"("abc"})", R"(expected a list "characters")"},
      {list + R"(["a", "bc"]})", R"(:3: characters[1] is "bc", expected one)"},
      {list + R"([""]})", R"(characters[0] is "", expected one)"},
      {list + "[65]}", "characters[0] is 65, expected one"},
      {list + "[256]}", "characters[0] is 256, expected one"},
      {list + "[200.5]}", "characters[0] is 200.5, expected one"},
      {list + "[null]}", "characters[0] is null, expected one"},
      {list + R"(["a", 200, 200]})",
       "characters[2] is 200, which is there before it"}};
  for (const auto& [text, part] : cases) {
    write_own(text);
    EXPECT_TRUE(has(refused(), part)) << refused();
    EXPECT_TRUE(has(refused(), "Fix: ")) << refused();
  }
}

} // namespace
} // namespace zero::data

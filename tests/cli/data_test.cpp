// `zero data`.
#include <gtest/gtest.h>

#include <fstream>

#include "data/bpe_tokenizer.h"
#include "data/token_file.h"
#include "data/tokenizer_folder.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

std::string bpe_file(const std::string& name) {
  const auto tests =
      std::filesystem::path(__FILE__).parent_path().parent_path();
  return tests / "data" / "bpe" / name;
}

TEST(Data, TheTokensArePreparedAsTheWholeTextHasThem) {
  const TemporaryFolder folder;
  const std::string text_path = folder.path() / "text.txt";
  std::string text;
  for (int i = 0; text.size() < 9'000'000; ++i) { // more than two pieces
    text += "the  cat sat, on\n\n the mat's " + std::to_string(i) + " \t ";
  }
  std::ofstream(text_path) << text;
  const std::string out = folder.path() / "out";
  Job job(
      {zero_program(),
       "data",
       text_path,
       "--out",
       out,
       "--tokenizer",
       "gpt2",
       "--vocab",
       bpe_file("vocab.json"),
       "--merges",
       bpe_file("merges.txt"),
       "--validation-share",
       "0"});
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(has(job.out(), "vocabulary: 557")) << job.out();

  const auto tokenizer = data::read_tokenizer(out);
  const auto expected = tokenizer->encode(text);
  const data::TokenFile file(out + "/train.bin");
  ASSERT_EQ(file.num_tokens(), static_cast<int64_t>(expected.size()));
  const at::Tensor found =
      file.read(0, file.num_tokens(), tokenizer->vocabulary());
  EXPECT_TRUE(std::equal(
      expected.begin(), expected.end(), found.const_data_ptr<int64_t>()));
  EXPECT_FALSE(std::filesystem::exists(out + "/val.bin"));
}

TEST(Data, MistakesAreTold) {
  const TemporaryFolder folder;
  const auto complaint = [&](const Strings& arguments) {
    Strings command{zero_program(), "data"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Job job(command);
    EXPECT_NE(job.wait(), 0);
    return job.err();
  };
  const std::string out = folder.path() / "out";
  EXPECT_TRUE(
      has(complaint({"/no/such.txt", "--out", out}), "there is no text file"));
  EXPECT_TRUE(has(
      complaint({__FILE__, "--out", out, "--tokenizer", "gpt2"}), "--vocab"));
  EXPECT_TRUE(
      has(complaint({__FILE__, "--out", out, "--format", "x"}), "--format"));
  EXPECT_TRUE(has(
      complaint({__FILE__, "--out", out, "--tokenizer", "x"}), "--tokenizer"));
  EXPECT_TRUE(
      has(complaint({__FILE__, "--out", out, "--vocab", "v.json"}),
          "--tokenizer gpt2"));
  const std::string empty = folder.path() / "empty.txt";
  std::ofstream{empty};
  EXPECT_TRUE(has(complaint({empty, "--out", out}), "is empty"));
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_TRUE(has(
      complaint({__FILE__, "--out", "/proc/no"}), "cannot make the folder"));

  // What is there is replaced when asked for, and then all of it.
  Job first({zero_program(), "data", __FILE__, "--out", out});
  ASSERT_EQ(first.wait(), 0) << first.err();
  EXPECT_TRUE(has(complaint({__FILE__, "--out", out}), "is there already"));
  Job second(
      {zero_program(),
       "data",
       __FILE__,
       "--out",
       out,
       "--validation-share",
       "0",
       "--overwrite"});
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_FALSE(std::filesystem::exists(out + "/val.bin"));
}

TEST(Data, AShareThatLeavesNothingIsToldOf) {
  const TemporaryFolder folder;
  const std::string text = folder.path() / "text.txt";
  std::ofstream(text) << "a";
  for (const char* share : {"nan", "0.99"}) {
    Job job(
        {zero_program(),
         "data",
         text,
         "--out",
         folder.path() / "out",
         "--validation-share",
         share});
    EXPECT_EQ(job.wait(), 2);
    EXPECT_TRUE(has(job.err(), "--validation-share")) << job.err();
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out/train.bin"));
}

TEST(Data, ATextIsNotReplacedByItsTokens) {
  const TemporaryFolder folder;
  const std::string text = folder.path() / "train.bin";
  std::ofstream(text) << "not tokens";
  Job job(
      {zero_program(), "data", text, "--out", folder.path(), "--overwrite"});
  EXPECT_EQ(job.wait(), 2);
  EXPECT_TRUE(has(job.err(), "by its own tokens")) << job.err();
  EXPECT_EQ(read_file(text), "not tokens");
}

TEST(Data, TextIsCutBetweenCharacters) {
  const TemporaryFolder folder;
  const std::string text_path = folder.path() / "text.txt";
  std::string text;
  for (int i = 0; i < 5001; ++i) {
    text += i % 3 == 0 ? "\u00e9" : i % 3 == 1 ? "\u2028" : "\U0001F600";
  }
  std::ofstream(text_path) << text;
  for (const char* share : {"0.5", "0.3333", "0.1001", "0.002"}) {
    const std::string out = folder.path() / share;
    Job job(
        {zero_program(),
         "data",
         text_path,
         "--out",
         out,
         "--validation-share",
         share});
    ASSERT_EQ(job.wait(), 0) << job.err();
    EXPECT_TRUE(has(job.out(), "vocabulary: 3")) << job.out();
    const int64_t count = data::TokenFile(out + "/train.bin").num_tokens() +
        data::TokenFile(out + "/val.bin").num_tokens();
    EXPECT_EQ(count, 5001) << share;
  }
}

} // namespace
} // namespace zero::test

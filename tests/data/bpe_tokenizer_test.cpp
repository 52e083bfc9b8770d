#include "data/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

using nlohmann::ordered_json;
using test::error_of;
using test::has;

// Made by bench/peers/golden_tokens.py.
std::filesystem::path golden_folder() {
  return std::filesystem::path(__FILE__).parent_path() / "bpe";
}

std::unique_ptr<Tokenizer> golden_tokenizer() {
  return read_bpe_tokenizer(
      golden_folder() / "vocab.json", golden_folder() / "merges.txt");
}

std::vector<int64_t> joined(std::initializer_list<std::vector<int64_t>> lists) {
  std::vector<int64_t> all;
  for (const auto& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

TEST(BpeTokenizer, TokensAreThoseOfTiktoken) {
  const auto tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer->vocabulary(), 557);
  const auto cases =
      ordered_json::parse(test::read_file(golden_folder() / "golden.json"));
  EXPECT_GE(cases.size(), 40);
  for (const auto& one : cases) {
    const std::string text = one["text"];
    const std::vector<int64_t> tokens = one["tokens"];
    EXPECT_EQ(tokenizer->encode(text), tokens) << one["name"];
    EXPECT_EQ(tokenizer->decode(tokens), text) << one["name"];
  }
}

TEST(BpeTokenizer, NoTextIsEncodedAsTheEndOfText) {
  const auto tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer->end_of_text(), 556);
  const std::string end = "<|endoftext|>";
  EXPECT_EQ(tokenizer->decode({556}), end);
  const auto tokens = tokenizer->encode(end);
  EXPECT_GT(tokens.size(), 3);
  EXPECT_EQ(tokenizer->decode(tokens), end);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 556), 0);
}

TEST(BpeTokenizer, NumbersThatAreNoTokensAreRefused) {
  const auto tokenizer = golden_tokenizer();
  for (const int64_t token : {int64_t{-1}, int64_t{557}, int64_t{1} << 40}) {
    const std::string text = error_of([&] { tokenizer->decode({0, token}); });
    EXPECT_TRUE(has(text, "in a vocabulary of 557")) << text;
  }
}

TEST(BpeTokenizer, ABytePastUtf8IsAWordOfItsOwn) {
  const auto tokenizer = golden_tokenizer();
  const auto encode = [&](const char* text) { return tokenizer->encode(text); };
  EXPECT_EQ(
      encode(" bridge\xFF bridge"),
      joined({encode(" bridge"), encode("\xFF"), encode(" bridge")}));
  EXPECT_EQ(encode("\xFF").size(), 1);
  // Spaces before it are as at the end of a text: none is left for it.
  EXPECT_EQ(encode("the   \xFF"), joined({encode("the   "), encode("\xFF")}));
}

TEST(BpeTokenizer, AnyBytesComeBack) {
  const auto tokenizer = golden_tokenizer();
  const std::vector<std::string> odd = {
      "\x80",
      "\xC3",
      "\xC3(",
      "\xC0\x80", // more bytes than it needs
      "\xE0\x80\xAF",
      "\xED\xA0\x80\xED\xB0\x80", // halves of a pair
      "\xF0\x9F\x98",
      "\xF4\x90\x80\x80", // past the last
      "\xF8\x88\x80\x80\x80",
      "\xF0\x9F\x91\xF0\x9F\x91\x8D",
      std::string("\0 \0\xFE\xFF", 5)};
  for (const auto& text : odd) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  std::mt19937 random(1);
  // Bytes that make characters of UTF-8 now and then, and others.
  const std::string some = " a's\n\xC3\xA9\xE2\x80\x83\xF0\x9F\x91\x8D\xED\xFF";
  for (int i = 0; i < 300; ++i) {
    std::string text(random() % 200, ' ');
    for (char& byte : text) {
      byte = i % 2 == 0 ? static_cast<char>(random())
                        : some[random() % some.size()];
    }
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << i;
  }
}

TEST(BpeTokenizer, AWordOfAMegabyteTakesSeconds) {
  const auto tokenizer = golden_tokenizer();
  constexpr size_t kBytes = 1'000'000;
  std::mt19937 random(1);
  std::string letters(kBytes, ' ');
  for (char& letter : letters) {
    letter = "etaoinshrdlu"[random() % 12];
  }
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text :
       {letters,
        std::string(kBytes, '!'),
        std::string(kBytes, ' ') + "x",
        std::string(kBytes, '\xFF')}) {
    const auto tokens = tokenizer->encode(text);
    EXPECT_TRUE(tokenizer->decode(tokens) == text) << text.substr(0, 10);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(BpeTokenizer, WordsAreTheSameWhetherSeenBeforeOrNot) {
  const auto tokenizer = golden_tokenizer();
  std::string text;
  std::vector<int64_t> expected;
  // More different words than are remembered, each of them twice.
  for (int i = 0; i < 140'000; ++i) {
    const std::string word = " lantern" + std::to_string(i % 70'000);
    text += word;
    const auto tokens = tokenizer->encode(word);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  EXPECT_TRUE(tokenizer->encode(text) == expected);
}

// Files that differ from the good ones.
class BpeFilesTest : public testing::Test {
 protected:
  void write(const std::string& vocab, const std::string& merges) {
    std::ofstream(vocab_path_, std::ios::binary) << vocab;
    std::ofstream(merges_path_, std::ios::binary) << merges;
  }
  std::unique_ptr<Tokenizer> read() {
    return read_bpe_tokenizer(vocab_path_, merges_path_);
  }
  std::string refused(const std::string& vocab, const std::string& merges) {
    write(vocab, merges);
    return error_of([&] { read(); });
  }
  // With one token more, or another number for one that is there.
  std::string vocab_with(const std::string& token, const ordered_json& number) {
    auto tokens = ordered_json::parse(vocab_);
    tokens[token] = number;
    return tokens.dump();
  }

  test::TemporaryFolder folder_;
  std::string vocab_path_ = folder_.path() / "vocab.json";
  std::string merges_path_ = folder_.path() / "merges.txt";
  std::string vocab_ = test::read_file(golden_folder() / "vocab.json");
  std::string merges_ = test::read_file(golden_folder() / "merges.txt");
};

TEST_F(BpeFilesTest, LinesMayEndAsTheyDoOnWindowsAndNeedNoVersion) {
  const std::string text = "the captain has hidden 12 lanterns";
  const auto expected = golden_tokenizer()->encode(text);
  const std::string bare = merges_.substr(merges_.find('\n') + 1);
  std::string carriage_returns;
  for (const char c : merges_) {
    carriage_returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  }
  for (const auto& merges :
       {bare, carriage_returns, bare.substr(0, bare.size() - 1)}) {
    write(vocab_, merges);
    EXPECT_EQ(read()->encode(text), expected) << merges.substr(0, 30);
  }
}

TEST_F(BpeFilesTest, AnEarlierLineIsMergedFirst) {
  auto vocab = ordered_json::parse(vocab_);
  for (const char* token : {"qx", "xz", "qxz", "xzj"}) {
    vocab[token] = vocab.size();
  }
  // Once x z is merged, q x is no more, and what has come of it has to wait.
  write(vocab.dump(), "x z\nq x\nxz j\nq xz\n");
  EXPECT_EQ(
      read()->encode("qxzj"), (std::vector<int64_t>{vocab["q"], vocab["xzj"]}));
  write(vocab.dump(), "x z\nq x\nq xz\nxz j\n");
  EXPECT_EQ(
      read()->encode("qxzj"), (std::vector<int64_t>{vocab["qxz"], vocab["j"]}));
}

TEST_F(BpeFilesTest, WithoutMergesBytesAreTokens) {
  write(vocab_, "");
  EXPECT_EQ(read()->encode("captain").size(), 7);
}

TEST_F(BpeFilesTest, TheEndOfTextNeedNotBeThere) {
  auto tokens = ordered_json::parse(vocab_);
  tokens.erase("<|endoftext|>");
  write(tokens.dump(), merges_);
  EXPECT_EQ(read()->end_of_text(), std::nullopt);
}

TEST_F(BpeFilesTest, AVocabularyThatCannotBeRightIsRefused) {
  EXPECT_TRUE(has(error_of([&] { read(); }), "cannot read"));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "vocab.json:1:1: empty"},
      {R"({"a": 0,)", "vocab.json:1:"},
      {"[0, 1]", "vocab.json:1: expected an object of tokens"},
      {"{}", "vocab.json:1: expected an object of tokens"},
      {"{\n\"a\": 0,\n\"a\": 1}", "given twice, first on line 2"},
      {"{\n\"a\": 0,\n\"b\": 1}", "no token for the byte 0"},
      {"{\n\"a\": 0,\n\"b\": 0}",
       R"(vocab.json:3: the token "b" has 0, which "a" has too)"},
      {vocab_with("zz", 558),
       R"("zz" has 558, expected a number from 0 to 557)"},
      {vocab_with("zz", -1), R"("zz" has -1, expected)"},
      {vocab_with("zz", 4e18), R"("zz" has 4e+18, expected)"},
      {vocab_with("zz", 1e300), R"("zz" has 1e+300, expected)"},
      {vocab_with("zz", 557.5), R"("zz" has 557.5, expected)"},
      {vocab_with("zz", "557"), R"("zz" has "557", expected)"},
      {vocab_with("z z", 557), R"(the token "z z" has other characters)"},
      {vocab_with("\u65E5", 557), "has other characters"}};
  for (const auto& [vocab, part] : cases) {
    const std::string text = refused(vocab, merges_);
    EXPECT_TRUE(has(text, part)) << text;
    EXPECT_TRUE(has(text, "Fix: ")) << text;
  }
  auto tokens = ordered_json::parse(vocab_);
  tokens["zz"] = tokens["!"]; // takes the place of a byte
  tokens.erase("!");
  const std::string text = refused(tokens.dump(), merges_);
  EXPECT_TRUE(has(text, "no token for the byte 33")) << text;
}

TEST_F(BpeFilesTest, MergesThatCannotBeRightAreRefused) {
  write(vocab_, merges_);
  std::filesystem::remove(merges_path_);
  EXPECT_TRUE(has(error_of([&] { read(); }), "cannot read"));
  const std::string version = "#version: 0.2\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {version + "h e\nhe\n", R"(merges.txt:3: "he", expected two tokens)"},
      {version + " e\n", R"(merges.txt:2: " e", expected two tokens)"},
      {version + "h \n", R"(merges.txt:2: "h ", expected two tokens)"},
      {version + "h e r\n", R"(the token "e r" has other characters)"},
      {version + "hq e\n", R"("hq e": the vocabulary does not have the first)"},
      {version + "h qe\n",
       R"("h qe": the vocabulary does not have the second)"},
      {version + "q q\n", R"("q q": the vocabulary does not have both as one)"},
      {version + "h e\n\nh e\n", R"(merges.txt:4: "h e" is there twice)"},
      {version + version, R"(merges.txt:2: "#version: 0.2": the vocabulary)"},
      {"h \xFF\n", R"(merges.txt:1: the token "\xff" has other characters)"},
      {"\xFF\n", R"(merges.txt:1: "\xff", expected two tokens)"},
      {std::string("h \0\n", 4), R"("\x00" has other characters)"},
      {std::string((size_t{16} << 20) + 1, '\n'), "more than 16777216 bytes"}};
  for (const auto& [merges, part] : cases) {
    const std::string text = refused(vocab_, merges);
    EXPECT_TRUE(has(text, part)) << text;
    EXPECT_TRUE(has(text, "Fix: ")) << text;
  }
}

// Whatever follows, also what a character is cut in two by.
TEST(BpeTokenizer, TextInPiecesHasTheTokensOfTheWhole) {
  const auto tokenizer = golden_tokenizer();
  const std::vector<std::string> parts{
      "'",
      "l",
      "s",
      "re",
      " ",
      "  ",
      "\n",
      "\u00a0",
      "\u00e9",
      "\u2028",
      "\xE2",
      "\x80",
      "\xF0\x9F\x98\x80",
      "1",
      "==",
      "the",
      "Th",
      ""};
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      text += parts[random() % parts.size()];
    }
    const auto whole = tokenizer->encode(text);
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      const size_t settled =
          tokenizer->settled_prefix(std::string_view(text).substr(0, cut));
      ASSERT_LE(settled, cut);
      EXPECT_EQ(
          joined(
              {tokenizer->encode(text.substr(0, settled)),
               tokenizer->encode(text.substr(settled))}),
          whole)
          << round << ", " << cut;
    }
  }
  EXPECT_EQ(tokenizer->settled_prefix("one two three"), 3); // and two words
}

} // namespace
} // namespace zero::data

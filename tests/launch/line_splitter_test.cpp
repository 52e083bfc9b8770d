#include "launch/line_splitter.h"

#include <c10/util/StringUtil.h>
#include <gtest/gtest.h>

namespace zero::launch {
namespace {

using Lines = std::vector<std::string>;

class LineSplitterTest : public testing::Test {
 protected:
  void feed(std::string_view bytes, double seconds = 0) {
    const auto moment = std::chrono::duration_cast<base::Clock::duration>(
        base::Seconds(1000 + seconds));
    splitter.feed(bytes, base::TimePoint(moment));
  }

  Lines lines;
  LineSplitter splitter{
      [this](std::string_view line) { lines.emplace_back(line); }};
};

TEST_F(LineSplitterTest, LinesComeWholeHoweverTheBytesCome) {
  for (const char byte : std::string("one\ntwo\n\nthree")) {
    feed({&byte, 1});
  }
  EXPECT_EQ(lines, (Lines{"one", "two", ""}));
  splitter.finish();
  EXPECT_EQ(lines, (Lines{"one", "two", "", "three"}));
}

TEST_F(LineSplitterTest, NothingIsMadeUpAtTheEnd) {
  feed("line\n");
  splitter.finish();
  splitter.finish();
  EXPECT_EQ(lines, (Lines{"line"}));
}

TEST_F(LineSplitterTest, LineEndsOfDosAreLineEnds) {
  feed("one\r\ntwo\r");
  feed("\nthree\r\n");
  EXPECT_EQ(lines, (Lines{"one", "two", "three"}));
}

TEST_F(LineSplitterTest, ZeroBytesAndEscapesPassUnchanged) {
  const std::string odd("a\0\033[31mb\t\xff", 10);
  feed(odd + "\n");
  EXPECT_EQ(lines, (Lines{odd}));
}

TEST_F(LineSplitterTest, AProgressBarGivesOneStatePerSecondAndTheLast) {
  for (int percent = 0; percent < 100; ++percent) {
    feed(c10::str("\r", percent, "%"), percent * 0.025);
  }
  feed("\r100%\n", 2.5);
  EXPECT_EQ(lines, (Lines{"0%", "40%", "80%", "100%"}));
}

TEST_F(LineSplitterTest, AProgressBarThatEndsItsStatesWithReturnsGivesTheLast) {
  feed("1%\r");
  feed("2%\r");
  feed("3%\r");
  feed("\nnext\n");
  EXPECT_EQ(lines, (Lines{"1%", "3%", "next"}));
}

TEST_F(LineSplitterTest, AStateThatWasGivenIsNotGivenAgainWhenTheLineEnds) {
  feed("done\r");
  feed("\n");
  splitter.finish();
  EXPECT_EQ(lines, (Lines{"done"}));
}

TEST_F(LineSplitterTest, AnUnfinishedProgressBarIsGivenAtTheEnd) {
  feed("\r1%\r2%");
  splitter.finish();
  EXPECT_EQ(lines, (Lines{"1%", "2%"}));
}

TEST_F(LineSplitterTest, ALineOfTheLargestSizeStaysWhole) {
  const std::string longest(LineSplitter::kMaxLineBytes, 'x');
  feed(longest);
  feed("\n");
  EXPECT_EQ(lines, (Lines{longest}));
}

TEST_F(LineSplitterTest, ALongerLineComesInPiecesAndNoByteIsLost) {
  const std::string bytes(2 * LineSplitter::kMaxLineBytes + 3, 'x');
  feed(bytes.substr(0, 100));
  feed(bytes.substr(100));
  feed("\nshort\n");
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[0] + lines[1] + lines[2], bytes);
  EXPECT_EQ(lines[2], "xxx");
  EXPECT_EQ(lines[3], "short");
}

} // namespace
} // namespace zero::launch

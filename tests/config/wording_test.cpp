// Values in messages are short and harmless.
#include "config/wording.h"

#include <gtest/gtest.h>

namespace zero::config {
namespace {

TEST(Wording, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(in_quotes("a"), "\"a\"");
}

TEST(Wording, LongTextIsCut) {
  const std::string shown = printable(std::string(1000, 'x'));
  EXPECT_LT(shown.size(), 70U);
  EXPECT_TRUE(shown.ends_with("..."));
}

TEST(Wording, TextIsNotCutInsideACharacter) {
  // 59 letters, then a character of two bytes around the place of the cut.
  const std::string shown = printable(std::string(59, 'x') + "\u00e9\u00e9");
  EXPECT_EQ(shown, std::string(59, 'x') + "...");
}

TEST(Wording, OtherScriptsAreShownUnlessTheyMayBeBroken) {
  EXPECT_EQ(printable("\u00e9"), "\u00e9");
  EXPECT_EQ(printable("\u00e9", true), "\\xc3\\xa9");
}

TEST(Wording, NumbersHaveNoMoreDigitsThanNeeded) {
  EXPECT_EQ(shown(0.1), "0.1");
  EXPECT_EQ(shown(-1), "-1");
  EXPECT_EQ(shown(1e-8), "1e-08");
}

TEST(Wording, ListsReadAsSentences) {
  EXPECT_EQ(either({"a"}), "a");
  EXPECT_EQ(either({"a", "b"}), "a or b");
  EXPECT_EQ(either({"a", "b", "c"}), "a, b or c");
  EXPECT_EQ(either({}), "");
}

TEST(Wording, SplitsAtSpaces) {
  EXPECT_EQ(split(" a  bc "), (std::vector<std::string>{"a", "bc"}));
  EXPECT_TRUE(split("").empty());
  EXPECT_TRUE(split("   ").empty());
}

} // namespace
} // namespace zero::config

// JSON is read with its lines, and hostile text is refused.
#include "config/parse_json.h"

#include <gtest/gtest.h>
#include <zero/error.h>

#include "config/mistakes.h"
#include "config/report.h"

namespace zero::config {
namespace {

using JsonKind = JsonValue::Kind;

JsonValue parse(std::string_view text) {
  Report report("zero.json");
  JsonValue value = parse_json(text, "zero.json", report);
  report.throw_if_any();
  return value;
}

std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(ParseJson, EveryKindOfValueIsKept) {
  const JsonValue root = parse(
      R"({"a": null, "b": true, "c": -3, "d": 5e8, "e": "x", "f": [1, {}],
          "g": 18446744073709551615})");
  EXPECT_EQ(root.find("a")->kind, JsonKind::null);
  EXPECT_EQ(root.find("b")->boolean, true);
  EXPECT_EQ(root.find("c")->integer, -3);
  EXPECT_EQ(root.find("c")->number, -3.0);
  EXPECT_EQ(root.find("d")->kind, JsonKind::number);
  EXPECT_EQ(root.find("d")->number, 5e8);
  EXPECT_EQ(root.find("e")->text, "x");
  EXPECT_EQ(root.find("f")->elements.size(), 2U);
  EXPECT_EQ(root.find("g")->kind, JsonKind::number); // does not fit in 63 bits
  EXPECT_EQ(root.find("h"), nullptr);
}

TEST(ParseJson, ValuesHaveTheLineOfTheirKey) {
  const JsonValue root = parse(
      "{\n"
      "  \"a\": 1,\n"
      "  \"b\":\n"
      "    2\n"
      "  ,\n"
      "  \"c\": {\n"
      "    \"d\": [\n"
      "      {\n"
      "        \"e\": 3}]},\n"
      "\"f\": 4}");
  EXPECT_EQ(root.find("a")->line, 2);
  EXPECT_EQ(root.find("b")->line, 3);
  EXPECT_EQ(root.find("c")->line, 6);
  const JsonValue* d = root.find("c")->find("d");
  EXPECT_EQ(d->line, 7);
  EXPECT_EQ(d->elements[0].line, 8);
  EXPECT_EQ(d->elements[0].find("e")->line, 9);
  EXPECT_EQ(root.find("f")->line, 10);
}

TEST(ParseJson, WindowsLinesCountOnce) {
  const JsonValue root = parse("{\r\n\"a\": 1,\r\n\"b\": 2\r\n}\r\n");
  EXPECT_EQ(root.find("a")->line, 2);
  EXPECT_EQ(root.find("b")->line, 3);
}

TEST(ParseJson, AByteOrderMarkIsSkipped) {
  EXPECT_EQ(parse("\xEF\xBB\xBF{\"a\": 1}").find("a")->integer, 1);
  EXPECT_TRUE(mentions(error_of("\xEF\xBB\xBF{]"), "zero.json:1:2:"));
}

TEST(ParseJson, CommentsAreAllowedAndCountAsLines) {
  const JsonValue root = parse("// one\n/* two\n three */ {\n\"a\": 1}");
  EXPECT_EQ(root.find("a")->line, 4);
}

TEST(ParseJson, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_TRUE(
      mentions(error_of("{\n  \"a\": 1,\n  \"b\" 2\n}"), "zero.json:3:7:"));
  EXPECT_TRUE(mentions(error_of("{\"a\": 1,}"), "zero.json:1:9:"));
  EXPECT_TRUE(mentions(error_of("{\"a\": tru}"), "invalid literal"));
  EXPECT_TRUE(mentions(error_of("{} {}"), "zero.json:1:4:"));
  EXPECT_TRUE(mentions(error_of("{\"a\": 1"), "unexpected end of input"));
}

TEST(ParseJson, NotANumberIsNoNumber) {
  for (const char* number :
       {"NaN",
        "nan",
        "Infinity",
        "-Infinity",
        "inf",
        "1e999",
        "-1e999",
        "0x10",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "--1"}) {
    EXPECT_NE(error_of(std::string("{\"a\": ") + number + "}"), "") << number;
  }
  EXPECT_EQ(parse("{\"a\": 1e-999}").find("a")->number, 0.0);
}

TEST(ParseJson, EmptyTextIsNoConfiguration) {
  for (const char* text : {"", " ", "\n\n", "\xEF\xBB\xBF", "\r\n\t "}) {
    EXPECT_TRUE(mentions(error_of(text), "empty")) << text;
  }
}

TEST(ParseJson, NothingHidesBehindANulByte) {
  using namespace std::string_view_literals;
  EXPECT_TRUE(mentions(error_of("{}\0{\"stage\": 3}"sv), "zero.json:1:3"));
  EXPECT_NE(error_of("\0"sv), "");
}

TEST(ParseJson, BrokenUtf8IsRefusedAndNotRepeated) {
  const std::string error = error_of("{\"a\xff\x1b\": 1}");
  EXPECT_NE(error, "");
  EXPECT_EQ(error.find('\xff'), std::string::npos);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

TEST(ParseJson, DeepNestingIsRefusedWithoutRecursion) {
  for (const char* opening : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) {
      text += opening;
    }
    EXPECT_TRUE(mentions(error_of(text), "levels of nesting"));
  }
  const std::string deepest =
      std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_EQ(error_of(deepest), "");
}

TEST(ParseJson, TooManyValuesAreRefused) {
  std::string text = "[0";
  for (size_t i = 0; i < kMaxJsonValues; ++i) {
    text += ",0";
  }
  EXPECT_TRUE(mentions(error_of(text + "]"), "values"));
}

// gcc is mistaken about the sum of two strings here.
std::string around(std::string begin, size_t count, char filling) {
  begin.append(count, filling);
  return begin;
}

TEST(ParseJson, TooMuchTextIsRefused) {
  const std::string text = around("{", kMaxJsonBytes, ' ') + "}";
  EXPECT_TRUE(mentions(error_of(text), "bytes"));
}

TEST(ParseJson, ALongTokenMakesAShortMessage) {
  EXPECT_LT(error_of(around("{\"a\": \"", 1 << 20, 'x')).size(), 400U);
  EXPECT_LT(error_of(around("{\"a\": 1e", 1 << 20, '9')).size(), 400U);
}

TEST(ParseJson, AKeyGivenTwiceIsAMistakeOnBothLevels) {
  EXPECT_EQ(
      error_of("{\"a\": 1,\n\"a\": 2}"),
      "zero.json:2: a: given twice, first on line 1. Fix: remove one of them");
  EXPECT_TRUE(mentions(
      error_of("{\"a\": [{}, {\"b\": 1, \"b\": 2}]}"), "a[1].b: given twice"));
  EXPECT_EQ(error_of("{\"a\": {\"a\": 1}, \"b\": {\"a\": 1}}"), "");
}

TEST(ParseJson, ManyKeysAreQuick) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) {
    text += "\"k" + std::to_string(i) + "\": 0, ";
  }
  EXPECT_EQ(parse(text + "\"end\": 0}").keys.size(), 100'001U);
}

TEST(ParseJson, ValuesDescribeThemselves) {
  const JsonValue root =
      parse(R"([null, true, -3, 0.5, "x", [1], [1, 2], {"a": 1}])");
  std::vector<std::string> described;
  for (const JsonValue& value : root.elements) {
    described.push_back(value.describe());
  }
  EXPECT_EQ(
      described,
      (std::vector<std::string>{
          "null",
          "true",
          "-3",
          "0.5",
          "\"x\"",
          "a list of 1 value",
          "a list of 2 values",
          "an object"}));
}

} // namespace
} // namespace zero::config

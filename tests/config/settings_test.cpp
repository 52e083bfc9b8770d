#include "config/settings.h"

#include <gtest/gtest.h>

#include "config/parse_json.h"
#include "engine/error_of.h"

namespace zero::config {
namespace {

JsonValue with_settings(const std::vector<std::string>& settings) {
  Report report("test");
  JsonValue root =
      parse_json(R"({"a": {"b": 1, "c": "x"}, "d": 2})", "test", report);
  for (const auto& setting : settings) {
    apply_setting(root, setting);
  }
  return root;
}

TEST(Settings, AValueTakesThePlaceOfTheFiles) {
  const JsonValue root = with_settings({"a.b=7", "d=[1, 2]"});
  EXPECT_EQ(root.find("a")->find("b")->integer, 7);
  EXPECT_EQ(root.find("a")->find("b")->line, kSetLine);
  EXPECT_EQ(root.find("a")->find("c")->text, "x");
  EXPECT_EQ(root.find("d")->elements.size(), 2);
}

TEST(Settings, ObjectsOnTheWayAreMade) {
  const JsonValue root = with_settings({"e.f.g=true"});
  EXPECT_TRUE(root.find("e")->find("f")->find("g")->boolean);
}

TEST(Settings, WhatIsNoJsonIsAText) {
  EXPECT_EQ(
      with_settings({"a.c=some text"}).find("a")->find("c")->text, "some text");
  EXPECT_EQ(with_settings({"a.c=x=y"}).find("a")->find("c")->text, "x=y");
  EXPECT_EQ(with_settings({"a.c="}).find("a")->find("c")->text, "");
  EXPECT_EQ(with_settings({R"(a.c="7")"}).find("a")->find("c")->text, "7");
}

TEST(Settings, MistakesAreTold) {
  const auto error = [](const std::string& setting) {
    return test::error_of([&] { with_settings({setting}); });
  };
  EXPECT_TRUE(test::has(error("a.b"), "there is no '='")) << error("a.b");
  EXPECT_TRUE(test::has(error("=3"), "a key is empty"));
  EXPECT_TRUE(test::has(error("a..b=3"), "a key is empty"));
  EXPECT_TRUE(test::has(error("d.e=3"), "no object")) << error("d.e=3");
}

} // namespace
} // namespace zero::config

// What only libzero has is under "libzero".
#include <gtest/gtest.h>
#include <zero/config.h>

#include <cmath>

#include "config/mistakes.h"

namespace zero::config {
namespace {

std::string with_libzero(const std::string& libzero) {
  return "{\"libzero\": " + libzero + "}";
}

LibzeroConfig read_libzero(const std::string& libzero) {
  return Config::from_json(with_libzero(libzero)).libzero;
}

TEST(LibzeroSection, DefaultsAreThoseOfTheHeader) {
  const LibzeroConfig libzero = read_libzero("{}");
  EXPECT_TRUE(libzero.shared_memory);
  EXPECT_EQ(libzero.gather_budget.bytes, std::nullopt);
  EXPECT_EQ(libzero.gather_budget.share, 0.25);
  EXPECT_EQ(libzero.timeout_seconds, std::nullopt);
  EXPECT_EQ(libzero.progress_timeout_seconds, std::nullopt);
  EXPECT_EQ(libzero.on_peer_lost, LibzeroConfig::OnPeerLost::resume);
  EXPECT_EQ(libzero.redundancy, 0);
  EXPECT_EQ(libzero.accumulate, LibzeroConfig::Accumulate::shard);
  EXPECT_EQ(libzero.clip_norm_type, 2);
  EXPECT_EQ(libzero.on_nonfinite, LibzeroConfig::OnNonfinite::update);
  EXPECT_TRUE(libzero.parameter_groups.empty());
}

TEST(LibzeroSection, EveryKeyIsRead) {
  const LibzeroConfig libzero = read_libzero(R"({
      "shared_memory": false, "gather_budget": 1e6, "timeout_seconds": 2.5,
      "progress_timeout_seconds": 60, "on_peer_lost": "raise",
      "redundancy": 1, "accumulate": "full", "clip_norm_type": "inf", "on_nonfinite": "raise",
      "parameter_groups": [
        {"match": "*.bias", "weight_decay": 0},
        {"match": "head.*", "lr": 0.5}]})");
  EXPECT_FALSE(libzero.shared_memory);
  EXPECT_EQ(libzero.gather_budget.bytes, 1'000'000);
  EXPECT_EQ(libzero.timeout_seconds, 2.5);
  EXPECT_EQ(libzero.progress_timeout_seconds, 60);
  EXPECT_EQ(libzero.on_peer_lost, LibzeroConfig::OnPeerLost::raise);
  EXPECT_EQ(libzero.redundancy, 1);
  EXPECT_EQ(libzero.accumulate, LibzeroConfig::Accumulate::full);
  EXPECT_TRUE(std::isinf(libzero.clip_norm_type));
  EXPECT_EQ(libzero.on_nonfinite, LibzeroConfig::OnNonfinite::raise);
  ASSERT_EQ(libzero.parameter_groups.size(), 2U);
  EXPECT_EQ(libzero.parameter_groups[0].match, "*.bias");
  EXPECT_EQ(libzero.parameter_groups[0].weight_decay, 0);
  EXPECT_EQ(libzero.parameter_groups[0].lr, std::nullopt);
  EXPECT_EQ(libzero.parameter_groups[1].lr, 0.5);
}

TEST(LibzeroSection, TheBudgetIsBytesOrAShare) {
  EXPECT_EQ(
      read_libzero(R"({"gather_budget": "50%"})").gather_budget.share, 0.5);
  EXPECT_EQ(
      read_libzero(R"({"gather_budget": "50%"})").gather_budget.bytes,
      std::nullopt);
  EXPECT_EQ(read_libzero(R"({"gather_budget": 0})").gather_budget.bytes, 0);
  for (const char* budget :
       {"\"25\"", "\"auto\"", "\"\"", "0.5", "true", "null", "[]", "\"-1%\""}) {
    EXPECT_TRUE(has_one_mistake(
        with_libzero(std::string("{\"gather_budget\": ") + budget + "}"),
        "a number of bytes, or a share such as \"25%\""));
  }
  EXPECT_TRUE(
      has_one_mistake(with_libzero(R"({"gather_budget": -1})"), "at least 0"));
  EXPECT_TRUE(has_one_mistake(
      with_libzero(R"({"gather_budget": "101%"})"), "\"100%\""));
}

TEST(LibzeroSection, ThereIsOneCopyOrNone) {
  for (const char* copies : {"2", "-1"}) {
    EXPECT_TRUE(has_one_mistake(
        with_libzero(std::string("{\"redundancy\": ") + copies + "}"),
        "0 or 1"));
  }
}

TEST(LibzeroSection, TheNormIsOneTwoOrInfinite) {
  EXPECT_EQ(read_libzero(R"({"clip_norm_type": 1})").clip_norm_type, 1);
  EXPECT_EQ(read_libzero(R"({"clip_norm_type": 2.0})").clip_norm_type, 2);
  for (const char* word : {"inf", "Inf", "infinity"}) {
    EXPECT_TRUE(std::isinf(
        read_libzero(R"({"clip_norm_type": ")" + std::string(word) + R"("})")
            .clip_norm_type));
  }
  for (const char* type : {"3", "0", "\"2\"", "null", "\"infinit\"", "1.5"}) {
    EXPECT_TRUE(has_one_mistake(
        with_libzero(std::string("{\"clip_norm_type\": ") + type + "}"),
        "expected 1, 2 or \"inf\""));
  }
}

TEST(LibzeroSection, TimeoutsAreAboveZero) {
  EXPECT_TRUE(
      has_one_mistake(with_libzero(R"({"timeout_seconds": 0})"), "above 0"));
  EXPECT_TRUE(has_one_mistake(
      with_libzero(R"({"progress_timeout_seconds": -1})"), "above 0"));
}

TEST(LibzeroSection, WordsAreChecked) {
  EXPECT_TRUE(has_one_mistake(
      with_libzero(R"({"on_peer_lost": "resume"})"),
      "expected \"continue\" or \"raise\""));
  EXPECT_TRUE(has_one_mistake(
      with_libzero(R"({"accumulate": "shards"})"), "did you mean \"shard\"?"));
  EXPECT_TRUE(
      has_one_mistake(with_libzero(R"({"accumulate": true})"), "got true"));
}

TEST(LibzeroSection, ParameterGroupsAreChecked) {
  const auto groups = [](const std::string& list) {
    return with_libzero("{\"parameter_groups\": " + list + "}");
  };
  EXPECT_TRUE(has_one_mistake(groups("{}"), "a list of objects"));
  EXPECT_TRUE(has_one_mistake(
      groups("[3]"), "parameter_groups[0]: got 3, expected an object"));
  EXPECT_TRUE(has_one_mistake(
      groups("[{\"lr\": 1}]"), "parameter_groups[0].match: missing"));
  EXPECT_TRUE(has_one_mistake(
      groups("[{\"match\": \"\"}]"), "parameter_groups[0].match: got \"\""));
  EXPECT_TRUE(has_one_mistake(
      groups("[{\"match\": \"a\"},\n{\"match\": \"b\",\n\"lr\": -1}]"),
      "zero.json:3: libzero.parameter_groups[1].lr: got -1"));
  EXPECT_TRUE(has_one_mistake(
      groups("[{\"match\": \"a\", \"decay\": 1}]"), "unknown key"));
}

} // namespace
} // namespace zero::config

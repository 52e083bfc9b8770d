#include "data/token_windows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <fstream>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

TEST(TokenWindows, TargetsAreTheInputsOneTokenLater) {
  const TokenWindows windows(at::arange(10, at::kLong), 3);
  EXPECT_EQ(windows.num_samples(), 7);
  const auto [inputs, targets] = windows.batch({0, 6});
  EXPECT_TRUE(at::equal(
      inputs, at::tensor({0, 1, 2, 6, 7, 8}, at::kLong).view({2, 3})));
  EXPECT_TRUE(at::equal(
      targets, at::tensor({1, 2, 3, 7, 8, 9}, at::kLong).view({2, 3})));
}

TEST(TokenWindows, AFileIsReadAsItIsNeeded) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "tokens.bin";
  std::ofstream(path, std::ios::binary) << std::string("\1\0\2\0\3\0\4\0", 8);
  const auto file = std::make_shared<TokenFile>(path);
  const TokenWindows windows(file, 0, 4, 2, 5);
  EXPECT_EQ(windows.num_samples(), 2);
  EXPECT_TRUE(at::equal(
      windows.batch({1}).targets, at::tensor({3, 4}, at::kLong).view({1, 2})));
  EXPECT_EQ(TokenWindows(file, 1, 4, 2, 5).num_samples(), 1);
  const TokenWindows narrow(file, 0, 4, 2, 4);
  EXPECT_TRUE(test::has(
      test::error_of([&] { narrow.batch({1}); }), "has 4 as token 3"));
}

TEST(TokenWindows, TextThatIsTooShortIsRefused) {
  for (const int64_t length : {0, 10, 11}) {
    const std::string text = test::error_of(
        [&] { const TokenWindows windows(at::arange(10, at::kLong), length); });
    EXPECT_TRUE(test::has(text, "the text has 10")) << text;
  }
  EXPECT_EQ(TokenWindows(at::arange(10, at::kLong), 9).num_samples(), 1);
}

TEST(TokenWindows, SideBySideEveryTokenIsPredictedOnce) {
  for (int64_t count = 4; count < 12; ++count) {
    const TokenWindows windows(at::arange(count, at::kLong), 3);
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < windows.num_windows(); ++i) {
      numbers.push_back(i);
    }
    const auto batch = windows.windows(numbers);
    std::vector<int64_t> predicted;
    for (int64_t i = 0; i < batch.targets.numel(); ++i) {
      const auto target = batch.targets.flatten()[i].item<int64_t>();
      if (target != TokenWindows::kNoTarget) {
        predicted.push_back(target);
        EXPECT_EQ(batch.inputs.flatten()[i].item<int64_t>(), target - 1);
      }
    }
    ASSERT_EQ(predicted.size(), count - 1);
    for (int64_t i = 0; i + 1 < count; ++i) {
      EXPECT_EQ(predicted[static_cast<size_t>(i)], i + 1);
    }
  }
}

} // namespace
} // namespace zero::data

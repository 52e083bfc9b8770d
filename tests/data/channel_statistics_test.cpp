#include "data/channel_statistics.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace zero::data {
namespace {

TEST(ChannelStatistics, AreThoseOfTorch) {
  const at::Tensor images = at::randint(256, {10, 2, 5, 7}).to(at::kByte);
  const auto set = in_memory(images, at::zeros({10}, at::kLong), 1);
  const auto found = measure_channels(set, 10);
  ASSERT_EQ(found.mean.size(), 2);
  for (int64_t channel = 0; channel < 2; ++channel) {
    const at::Tensor values =
        images.select(1, channel).to(at::kDouble).div(255);
    const auto i = static_cast<size_t>(channel);
    EXPECT_NEAR(found.mean[i], values.mean().item<double>(), 1e-6);
    EXPECT_NEAR(found.deviation[i], values.std().item<double>(), 1e-6);
  }
}

TEST(ChannelStatistics, ArePossibleOfAPart) {
  at::Tensor images = at::zeros({9, 1, 2, 2}, at::kByte);
  images[0].fill_(51);
  images[3].fill_(102);
  images[6].fill_(153);
  const auto set = in_memory(images, at::zeros({9}, at::kLong), 1);
  EXPECT_NEAR(measure_channels(set, 3).mean[0], 0.4, 1e-6);
}

TEST(ChannelStatistics, ImagesThatAreAllAlikeCanBeDividedBy) {
  const auto set = in_memory(
      at::zeros({1, 1, 2, 2}, at::kByte), at::zeros({1}, at::kLong), 1);
  EXPECT_EQ(measure_channels(set, 1).deviation[0], 1);
}

} // namespace
} // namespace zero::data

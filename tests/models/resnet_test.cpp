#include "models/resnet.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <map>
#include <string>

#include "engine/error_of.h"

namespace zero::models {
namespace {

std::map<std::string, std::vector<int64_t>> sizes_of(const ResNet& net) {
  std::map<std::string, std::vector<int64_t>> sizes;
  for (const auto& item : net->named_parameters()) {
    sizes[item.key()] = item.value().sizes().vec();
  }
  for (const auto& item : net->named_buffers()) {
    sizes[item.key()] = item.value().sizes().vec();
  }
  return sizes;
}

// Facts of torchvision's models.
TEST(ResNet, HasTheNamesAndSizesOfTorchvision) {
  const std::map<int, std::pair<int64_t, size_t>> facts{
      {18, {11689512, 122}}, {34, {21797672, 218}}, {50, {25557032, 320}}};
  for (const auto& [depth, fact] : facts) {
    const ResNet net(ResNetOptions{.depth = depth});
    int64_t numel = 0;
    for (const auto& parameter : net->parameters()) {
      numel += parameter.numel();
    }
    EXPECT_EQ(numel, fact.first) << depth;
    EXPECT_EQ(sizes_of(net).size(), fact.second) << depth;
  }
  using Sizes = std::vector<int64_t>;
  const auto small = sizes_of(ResNet(ResNetOptions{.depth = 18}));
  EXPECT_EQ(small.at("conv1.weight"), (Sizes{64, 3, 7, 7}));
  EXPECT_EQ(small.at("bn1.num_batches_tracked"), Sizes{});
  EXPECT_EQ(small.at("layer2.0.downsample.0.weight"), (Sizes{128, 64, 1, 1}));
  EXPECT_EQ(small.at("layer4.1.bn2.running_var"), (Sizes{512}));
  EXPECT_EQ(small.at("fc.bias"), (Sizes{1000}));
  EXPECT_EQ(small.count("layer1.0.downsample.0.weight"), 0);
  const auto large = sizes_of(ResNet(ResNetOptions{.depth = 50}));
  EXPECT_EQ(large.at("layer1.0.downsample.0.weight"), (Sizes{256, 64, 1, 1}));
  EXPECT_EQ(large.at("layer3.5.conv3.weight"), (Sizes{1024, 256, 1, 1}));
}

TEST(ResNet, TheSmallStemKeepsTheResolution) {
  torch::manual_seed(1);
  ResNet net(ResNetOptions{
      .depth = 18,
      .num_classes = 7,
      .num_channels = 1,
      .stem = ResNetOptions::Stem::small});
  const auto x = torch::rand({2, 1, 32, 32});
  const auto y = net->forward(x);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 7}));
  y.sum().backward();
  for (const auto& item : net->named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
  net->eval();
  EXPECT_TRUE(at::allclose( // each image for itself
      net->forward(x)[1],
      net->forward(x.narrow(0, 1, 1))[0],
      1e-4,
      1e-4));
}

TEST(ResNet, OtherDepthsAreRefused) {
  const std::string text =
      test::error_of([] { const ResNet net(ResNetOptions{.depth = 19}); });
  EXPECT_TRUE(test::has(text, "no network of 19 layers")) << text;
}

} // namespace
} // namespace zero::models

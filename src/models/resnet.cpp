#include "models/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/init.h>

#include <array>
#include <optional>
#include <string>

#include "base/error.h"

namespace zero::models {

namespace {

// How many times as wide the last convolution of a bottleneck is.
constexpr int64_t kExpansion = 4;

struct Architecture {
  std::array<int, 4> num_blocks;
  bool bottleneck = false;
};

std::optional<Architecture> architecture_of(int depth) {
  switch (depth) {
    case 18:
      return Architecture{{2, 2, 2, 2}, false};
    case 34:
      return Architecture{{3, 4, 6, 3}, false};
    case 50:
      return Architecture{{3, 4, 6, 3}, true};
    default:
      return std::nullopt;
  }
}

torch::nn::Conv2d convolution(
    int64_t in,
    int64_t out,
    int64_t kernel,
    int64_t stride) {
  torch::nn::Conv2d made(torch::nn::Conv2dOptions(in, out, kernel)
                             .stride(stride)
                             .padding(kernel / 2)
                             .bias(false));
  torch::nn::init::kaiming_normal_(
      made->weight, /*a=*/0, torch::kFanOut, torch::kReLU);
  return made;
}

} // namespace

ResidualImpl::ResidualImpl(
    int64_t in,
    int64_t width,
    int64_t stride,
    bool bottleneck) {
  const int64_t out = bottleneck ? kExpansion * width : width;
  if (bottleneck) {
    add(in, width, 1, 1);
    add(width, width, 3, stride);
    add(width, out, 1, 1);
  } else {
    add(in, width, 3, stride);
    add(width, out, 3, 1);
  }
  if (stride != 1 || in != out) {
    downsample_ = torch::nn::Sequential(
        convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out));
    register_module("downsample", downsample_);
  }
}

void ResidualImpl::add(
    int64_t in,
    int64_t out,
    int64_t kernel,
    int64_t stride) {
  const std::string number = std::to_string(stages_.size() + 1);
  stages_.push_back(
      {register_module("conv" + number, convolution(in, out, kernel, stride)),
       register_module("bn" + number, torch::nn::BatchNorm2d(out))});
}

at::Tensor ResidualImpl::forward(const at::Tensor& x) {
  at::Tensor y = x;
  for (size_t i = 0; i < stages_.size(); ++i) {
    y = stages_[i].norm->forward(stages_[i].convolution->forward(y));
    if (i + 1 < stages_.size()) {
      y.relu_();
    }
  }
  return (y + (downsample_ ? downsample_->forward(x) : x)).relu_();
}

ResNetImpl::ResNetImpl(const ResNetOptions& options) : options_(options) {
  const auto architecture = architecture_of(options.depth);
  if (!architecture) {
    throw ConfigError(c10::str(
        "resnet: there is no network of ",
        options.depth,
        " layers. Fix: choose 18, 34 or 50"));
  }
  if (options.num_classes < 1 || options.num_channels < 1) {
    throw ConfigError(c10::str(
        "resnet: expected at least one class and channel, got ",
        options.num_classes,
        " and ",
        options.num_channels));
  }
  const bool small = options.stem == ResNetOptions::Stem::small;
  int64_t in = 64;
  conv1_ = register_module(
      "conv1",
      convolution(options.num_channels, in, small ? 3 : 7, small ? 1 : 2));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(in));
  int64_t width = in;
  for (size_t layer = 0; layer < architecture->num_blocks.size(); ++layer) {
    torch::nn::Sequential blocks;
    for (int block = 0; block < architecture->num_blocks[layer]; ++block) {
      const int64_t stride = layer > 0 && block == 0 ? 2 : 1;
      blocks->push_back(Residual(in, width, stride, architecture->bottleneck));
      in = architecture->bottleneck ? kExpansion * width : width;
    }
    layers_.emplace_back(
        register_module("layer" + std::to_string(layer + 1), blocks));
    width *= 2;
  }
  fc_ = register_module("fc", torch::nn::Linear(in, options.num_classes));
}

at::Tensor ResNetImpl::forward(const at::Tensor& images) {
  at::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
  if (options_.stem == ResNetOptions::Stem::imagenet) {
    x = at::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  }
  for (auto& layer : layers_) {
    x = layer->forward(x);
  }
  return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

} // namespace zero::models

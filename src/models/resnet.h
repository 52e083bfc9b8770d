// Defines ResNet: the networks of 18, 34 and 50 layers, under the names that
// torchvision has, so that weights go from one to the other as they are.
//
//   ResNet net(ResNetOptions{.depth = 18, .num_classes = 10});
//   at::Tensor logits = net->forward(images); // batch x 3 x height x width
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace zero::models {

struct ResNetOptions {
  enum class Stem {
    imagenet, // 7 x 7 with stride 2 and pooling: a quarter of the resolution
    small, // 3 x 3: all of it, for images of 32 x 32
  };
  int depth = 18; // 18, 34 or 50
  int64_t num_classes = 1000;
  int64_t num_channels = 3; // of the images
  Stem stem = Stem::imagenet;
};

// Two convolutions of 3 x 3, or, in networks of 50 layers and more, one of 3 x
// 3 between two of 1 x 1; and what came in, added to it.
class ResidualImpl : public torch::nn::Module {
 public:
  ResidualImpl(int64_t in, int64_t width, int64_t stride, bool bottleneck);
  at::Tensor forward(const at::Tensor& x);

 private:
  struct Stage {
    torch::nn::Conv2d convolution;
    torch::nn::BatchNorm2d norm;
  };
  void add(int64_t in, int64_t out, int64_t kernel, int64_t stride);

  std::vector<Stage> stages_;
  torch::nn::Sequential downsample_{nullptr}; // where sizes change
};
TORCH_MODULE(Residual);

class ResNetImpl : public torch::nn::Module {
 public:
  // Throws: ConfigError for a depth that there is not, or sizes below 1.
  explicit ResNetImpl(const ResNetOptions& options);
  at::Tensor forward(const at::Tensor& images);

 private:
  ResNetOptions options_;
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::vector<torch::nn::Sequential> layers_;
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(ResNet);

} // namespace zero::models

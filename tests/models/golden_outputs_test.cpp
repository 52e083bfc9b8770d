// Outputs of transformers' GPT-2 and torchvision's ResNets, which
// bench/peers/golden_models.py has written down.
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/gpt.h"
#include "models/resnet.h"

namespace zero::models {
namespace {

at::Tensor wave(at::IntArrayRef sizes, double step, double shift) {
  const auto count = c10::multiply_integers(sizes);
  return at::sin(step * at::arange(count, at::kDouble) + shift).view(sizes);
}

void fill_with_waves(torch::nn::Module& module) {
  const auto fill = [](const std::string& name, const at::Tensor& tensor) {
    if (name.ends_with("num_batches_tracked")) {
      return;
    }
    const at::Tensor values =
        wave(tensor.sizes(), 0.7, static_cast<double>(name.size()));
    tensor.copy_(
        name.ends_with("running_var") ? 1 + values.square()
            : tensor.dim() > 1        ? 0.05 * values
                                      : 0.5 + 0.3 * values);
  };
  for (const auto& item : module.named_parameters()) {
    fill(item.key(), item.value());
  }
  for (const auto& item : module.named_buffers()) {
    fill(item.key(), item.value());
  }
  module.eval();
}

void expect_golden(const at::Tensor& found, const std::string& name) {
  std::ifstream file(
      std::filesystem::path(__FILE__).parent_path() / "golden_outputs.json");
  const auto expected =
      nlohmann::json::parse(file)[name].get<std::vector<double>>();
  const at::Tensor flat = found.to(at::kDouble).contiguous().flatten();
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(
        flat[static_cast<int64_t>(i)].item<double>(),
        expected[i],
        1e-4 * std::max(1.0, std::abs(expected[i])))
        << name << ", output " << i;
  }
}

TEST(GoldenOutputs, GptAnswersAsTransformersDoes) {
  const c10::NoGradGuard no_grad;
  Gpt gpt(GptOptions{
      .vocabulary = 50,
      .max_length = 16,
      .width = 24,
      .num_layers = 2,
      .num_heads = 3});
  fill_with_waves(*gpt);
  const at::Tensor tokens = at::arange(24, at::kLong).view({2, 12}) * 7 % 50;
  expect_golden(gpt->forward(tokens).select(1, 11).slice(1, 0, 10), "gpt");
}

TEST(GoldenOutputs, ResNetsAnswerAsTorchvisionsDo) {
  const c10::NoGradGuard no_grad;
  const at::Tensor images = wave({2, 3, 40, 40}, 0.01, 0).to(at::kFloat);
  for (const int depth : {18, 34, 50}) {
    ResNet net(ResNetOptions{.depth = depth, .num_classes = 6});
    fill_with_waves(*net);
    expect_golden(net->forward(images), "resnet" + std::to_string(depth));
  }
}

} // namespace
} // namespace zero::models

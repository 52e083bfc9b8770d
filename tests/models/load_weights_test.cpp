#include "models/load_weights.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "checkpoint/safetensors_writer.h"
#include "engine/error_of.h"
#include "launch/job.h"
#include "models/resnet.h"

namespace zero::models {
namespace {

using checkpoint::SafetensorsReader;
using checkpoint::SafetensorsWriter;
using test::error_of;
using test::has;
using test::TemporaryFolder;

class LoadWeightsTest : public testing::Test {
 protected:
  void write(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
    std::vector<checkpoint::TensorEntry> entries;
    for (const auto& [name, tensor] : tensors) {
      entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    }
    SafetensorsWriter writer(path_, entries);
    for (const auto& [name, tensor] : tensors) {
      writer.write(tensor.const_data_ptr(), tensor.nbytes());
    }
    writer.commit();
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() / "weights.safetensors";
};

TEST_F(LoadWeightsTest, ValuesAreThoseOfTheFileInTheModulesType) {
  torch::nn::Linear layer(3, 2);
  write(
      {{"x.weight", at::full({2, 3}, 1.5, at::kDouble)},
       {"x.bias", at::full({2}, 2.5, at::kHalf)},
       {"mask", at::ones({4})}});
  const auto left = load_weights(
      *layer, SafetensorsReader(path_), {.rename = [](const std::string& name) {
        return name == "mask" ? "" : name.substr(2);
      }});
  EXPECT_TRUE(left.empty());
  EXPECT_TRUE(at::equal(layer->weight, at::full({2, 3}, 1.5)));
  EXPECT_TRUE(at::equal(layer->bias, at::full({2}, 2.5)));
}

TEST_F(LoadWeightsTest, AllThatDoesNotFitIsNamedAndNothingIsChanged) {
  torch::nn::Linear layer(3, 2);
  const auto before = layer->weight.detach().clone();
  write(
      {{"weight", at::zeros({3, 2})},
       {"gamma", at::zeros({2})},
       {"beta", at::zeros({2})}});
  const std::string text =
      error_of([&] { load_weights(*layer, SafetensorsReader(path_)); });
  for (const std::string part :
       {"missing (1):\n    bias",
        "unexpected (2):\n    gamma\n    beta",
        "weight: expected [2, 3], got [3, 2]",
        "Fix: "}) {
    EXPECT_TRUE(has(text, part)) << text;
  }
  EXPECT_TRUE(at::equal(layer->weight, before));
}

TEST_F(LoadWeightsTest, TheLastLayerMayBeForOtherClasses) {
  const ResNet given(ResNetOptions{.num_classes = 10});
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : given->named_parameters()) {
    tensors.emplace_back(item.key(), item.value().detach());
  }
  for (const auto& item : given->named_buffers()) {
    tensors.emplace_back(item.key(), item.value());
  }
  write(tensors);
  const SafetensorsReader file(path_);
  ResNet net(ResNetOptions{.num_classes = 3});
  EXPECT_TRUE(
      has(error_of([&] { load_weights(*net, file); }),
          "fc.weight: expected [3, 512], got [10, 512]"));
  const auto left = load_weights(*net, file, {.may_stay = "fc."});
  EXPECT_EQ(
      left,
      (std::vector<std::string>{"fc.weight is [10, 512]", "fc.bias is [10]"}));
  EXPECT_TRUE(at::equal(
      net->named_parameters()["layer3.1.conv2.weight"],
      given->named_parameters()["layer3.1.conv2.weight"]));

  // Weights and biases are of the same classes.
  auto mixed = tensors;
  for (auto& [name, tensor] : mixed) {
    tensor = name == "fc.bias" ? at::zeros({7}) : tensor;
  }
  write(mixed);
  const std::string contradiction = error_of([&] {
    load_weights(*net, SafetensorsReader(path_), {.may_stay = "fc."});
  });
  EXPECT_TRUE(has(contradiction, "fc.bias: expected [3], got [7]"))
      << contradiction;

  // Only the number of classes is excused, and only all of it may be missing.
  for (auto& [name, tensor] : tensors) {
    tensor = name == "fc.weight" ? at::zeros({3, 13}) : tensor;
  }
  std::erase_if(tensors, [](const auto& item) {
    return item.first == "fc.bias" ||
        item.first.ends_with(".num_batches_tracked");
  });
  write(tensors);
  const SafetensorsReader wrong(path_);
  const std::string text = error_of([&] {
    load_weights(
        *net,
        wrong,
        {.may_stay = "fc.", .may_be_missing = ".num_batches_tracked"});
  });
  EXPECT_TRUE(has(text, "missing (1):\n    fc.bias")) << text;
  EXPECT_TRUE(has(text, "fc.weight: expected [3, 512], got [3, 13]")) << text;
}

} // namespace
} // namespace zero::models

// Defines the models that tests train, each with its own awkwardness, and the
// batches they are trained on.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace zero::test {

// What a test needs of a model: the module, and the loss of a batch.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  // The loss of the batch that `seed` stands for.
  std::function<at::Tensor(uint64_t seed)> loss;
};

inline at::Generator generator(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

inline at::Tensor random_floats(
    at::IntArrayRef sizes,
    uint64_t seed,
    at::ScalarType dtype = at::kFloat) {
  return torch::randn(sizes, generator(seed), torch::TensorOptions(dtype));
}

inline at::Tensor random_ints(
    int64_t limit,
    at::IntArrayRef sizes,
    uint64_t seed) {
  return torch::randint(
      0, limit, sizes, generator(seed), torch::TensorOptions(torch::kLong));
}

// Shapes that divide by nothing, a frozen layer, a scalar, an empty parameter,
// one that is never used, and one that is not contiguous.
struct OddNetImpl : torch::nn::Module {
  OddNetImpl() {
    first = register_module("first", torch::nn::Linear(7, 15));
    frozen = register_module("frozen", torch::nn::Linear(15, 16));
    second = register_module("second", torch::nn::Linear(16, 17));
    scale = register_parameter("scale", torch::ones({}));
    empty = register_parameter("empty", torch::empty({0, 3}));
    unused = register_parameter("unused", torch::ones({5}));
    transposed = register_parameter("transposed", torch::randn({3, 17}).t());
    for (auto& parameter : frozen->parameters()) {
      parameter.set_requires_grad(false);
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    auto h = torch::tanh(frozen(torch::tanh(first(x)))) * scale;
    return torch::matmul(second(h), transposed);
  }
  torch::nn::Linear first{nullptr}, frozen{nullptr}, second{nullptr};
  at::Tensor scale, empty, unused, transposed;
};
TORCH_MODULE(OddNet);

// A small GPT whose output layer is tied to its embedding.
struct TinyGptImpl : torch::nn::Module {
  static constexpr int64_t kVocabulary = 61;
  static constexpr int64_t kWidth = 24;
  TinyGptImpl() {
    tokens =
        register_module("tokens", torch::nn::Embedding(kVocabulary, kWidth));
    positions = register_module("positions", torch::nn::Embedding(16, kWidth));
    for (int i = 0; i < 2; ++i) {
      const auto name = std::to_string(i);
      norms.push_back(register_module(
          "norm" + name,
          torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}))));
      qkv.push_back(
          register_module("qkv" + name, torch::nn::Linear(kWidth, 3 * kWidth)));
      up.push_back(
          register_module("up" + name, torch::nn::Linear(kWidth, 4 * kWidth)));
      down.push_back(register_module(
          "down" + name, torch::nn::Linear(4 * kWidth, kWidth)));
    }
    // The same tensor under a second name.
    head = register_parameter("head", tokens->weight);
  }
  at::Tensor forward(const at::Tensor& ids) {
    const auto length = ids.size(1);
    auto x = tokens(ids) + positions(torch::arange(length));
    for (size_t i = 0; i < norms.size(); ++i) {
      auto parts = qkv[i](norms[i](x)).chunk(3, -1);
      x = x +
          at::scaled_dot_product_attention(
              parts[0], parts[1], parts[2], {}, 0.0, true);
      x = x + down[i](torch::gelu(up[i](norms[i](x))));
    }
    return torch::matmul(x, head.t());
  }
  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  std::vector<torch::nn::LayerNorm> norms;
  std::vector<torch::nn::Linear> qkv, up, down;
  at::Tensor head;
};
TORCH_MODULE(TinyGpt);

struct TinyResNetImpl : torch::nn::Module {
  TinyResNetImpl() {
    const auto conv = [](int64_t in, int64_t out) {
      return torch::nn::Conv2d(
          torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
    };
    stem = register_module("stem", conv(3, 8));
    norm0 = register_module("norm0", torch::nn::BatchNorm2d(8));
    conv1 = register_module("conv1", conv(8, 8));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(8));
    conv2 = register_module("conv2", conv(8, 8));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(8));
    head = register_module("head", torch::nn::Linear(8, 5));
  }
  at::Tensor forward(const at::Tensor& images) {
    auto x = torch::relu(norm0(stem(images)));
    x = torch::relu(x + norm2(conv2(torch::relu(norm1(conv1(x))))));
    return head(x.mean({2, 3}));
  }
  torch::nn::Conv2d stem{nullptr}, conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm0{nullptr}, norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(TinyResNet);

struct TinyLstmImpl : torch::nn::Module {
  TinyLstmImpl() {
    lstm = register_module(
        "lstm",
        torch::nn::LSTM(
            torch::nn::LSTMOptions(9, 11).num_layers(2).batch_first(true)));
    head = register_module("head", torch::nn::Linear(11, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(std::get<0>(lstm(x)).select(1, -1));
  }
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(TinyLstm);

// Sends each row to the expert that a router chooses: which experts a rank uses
// depends on its data. In float64.
struct TinyMoeImpl : torch::nn::Module {
  static constexpr int64_t kExperts = 5;
  TinyMoeImpl() {
    router = register_module("router", torch::nn::Linear(6, kExperts));
    for (int64_t i = 0; i < kExperts; ++i) {
      experts.push_back(register_module(
          "expert" + std::to_string(i), torch::nn::Linear(6, 6)));
    }
    head = register_module("head", torch::nn::Linear(6, 2));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto gates = torch::softmax(router(x), -1);
    const auto choice = gates.argmax(-1);
    auto y = x;
    for (int64_t i = 0; i < kExperts; ++i) {
      const auto rows = (choice == i).nonzero().flatten();
      if (rows.numel() > 0) {
        const auto part = x.index_select(0, rows);
        const auto gate = gates.index_select(0, rows).select(1, i);
        y = y.index_add(
            0,
            rows,
            torch::tanh(experts[static_cast<size_t>(i)](part)) *
                gate.unsqueeze(1));
      }
    }
    return head(y);
  }
  torch::nn::Linear router{nullptr}, head{nullptr};
  std::vector<torch::nn::Linear> experts;
};
TORCH_MODULE(TinyMoe);

// The generator that initialises weights is one for the whole process.
inline std::mutex building;

template <class Holder>
Holder build(uint64_t seed = 1) {
  const std::lock_guard lock(building);
  torch::manual_seed(seed);
  return Holder();
}

template <class Holder, class... Arguments>
Holder build_with(Arguments... arguments) {
  const std::lock_guard lock(building);
  return Holder(arguments...);
}

inline Model make_model(const std::string& name) {
  // It compiles its kernels anew in every thread, which takes most of the time.
  at::globalContext().setUserEnabledMkldnn(false);
  if (name == "odd") {
    auto net = build<OddNet>();
    return {net.ptr(), [net](uint64_t seed) mutable {
              return torch::mse_loss(
                  net(random_floats({4, 7}, seed)),
                  random_floats({4, 3}, seed + 1));
            }};
  }
  if (name == "gpt") {
    auto net = build<TinyGpt>();
    return {
        net.ptr(), [net](uint64_t seed) mutable {
          const auto ids = random_ints(TinyGptImpl::kVocabulary, {2, 9}, seed);
          const auto logits = net(ids.slice(1, 0, 8));
          return torch::nn::functional::cross_entropy(
              logits.flatten(0, 1), ids.slice(1, 1, 9).flatten());
        }};
  }
  if (name == "resnet") {
    auto net = build<TinyResNet>();
    return {net.ptr(), [net](uint64_t seed) mutable {
              return torch::nn::functional::cross_entropy(
                  net(random_floats({4, 3, 6, 6}, seed)),
                  random_ints(5, {4}, seed + 1));
            }};
  }
  if (name == "lstm") {
    auto net = build<TinyLstm>();
    return {net.ptr(), [net](uint64_t seed) mutable {
              return torch::mse_loss(
                  net(random_floats({3, 5, 9}, seed)),
                  random_floats({3, 3}, seed + 1));
            }};
  }
  if (name == "moe") {
    auto net = build<TinyMoe>();
    return {net.ptr(), [net](uint64_t seed) mutable {
              return torch::mse_loss(
                  net(random_floats({3, 6}, seed, at::kDouble)),
                  random_floats({3, 2}, seed + 1, at::kDouble));
            }};
  }
  throw std::runtime_error("no model " + name);
}

} // namespace zero::test

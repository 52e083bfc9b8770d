// Defines Gpt, the model that the training benchmarks share. peers/train_gpt.py
// has it once more: the same modules made in the same order, so that one seed
// gives the same weights in both languages.
//
//   torch::manual_seed(42);
//   zero::bench::Gpt gpt(zero::bench::GptOptions{.layers = 2});
//   at::Tensor loss = gpt->loss(tokens); // batch x (length + 1), of int64
#pragma once

#include <torch/nn.h>

#include <cstdint>

namespace zero::bench {

struct GptOptions {
  int64_t d_model = 512;
  int64_t layers = 6;
  int64_t heads = 8;
  int64_t vocabulary = 8192;
  int64_t length = 64; // of the longest sequence
};

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const GptOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t heads_;
  torch::nn::LayerNorm attention_norm_;
  torch::nn::Linear qkv_;
  torch::nn::Linear projection_;
  torch::nn::LayerNorm mlp_norm_;
  torch::nn::Linear up_;
  torch::nn::Linear down_;
};
TORCH_MODULE(Block);

class GptImpl : public torch::nn::Module {
 public:
  explicit GptImpl(const GptOptions& options);
  at::Tensor forward(const at::Tensor& tokens); // logits
  at::Tensor loss(const at::Tensor& tokens); // of every token but the first

 private:
  torch::nn::Embedding tokens_; // the output layer too
  torch::nn::Embedding positions_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(Gpt);

inline BlockImpl::BlockImpl(const GptOptions& options)
    : heads_(options.heads),
      attention_norm_(torch::nn::LayerNormOptions({options.d_model})),
      qkv_(options.d_model, 3 * options.d_model),
      projection_(options.d_model, options.d_model),
      mlp_norm_(torch::nn::LayerNormOptions({options.d_model})),
      up_(options.d_model, 4 * options.d_model),
      down_(4 * options.d_model, options.d_model) {
  register_module("attention_norm", attention_norm_);
  register_module("qkv", qkv_);
  register_module("projection", projection_);
  register_module("mlp_norm", mlp_norm_);
  register_module("up", up_);
  register_module("down", down_);
}

inline at::Tensor BlockImpl::forward(const at::Tensor& x) {
  const auto batch = x.size(0);
  const auto length = x.size(1);
  const auto parts = qkv_->forward(attention_norm_->forward(x))
                         .view({batch, length, 3, heads_, -1})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
  const auto attended =
      at::scaled_dot_product_attention(
          parts[0], parts[1], parts[2], {}, /*dropout_p=*/0, /*is_causal=*/true)
          .transpose(1, 2)
          .reshape({batch, length, -1});
  const auto middle = x + projection_->forward(attended);
  return middle +
      down_->forward(at::gelu(up_->forward(mlp_norm_->forward(middle))));
}

inline GptImpl::GptImpl(const GptOptions& options)
    : tokens_(options.vocabulary, options.d_model),
      positions_(options.length, options.d_model),
      norm_(torch::nn::LayerNormOptions({options.d_model})) {
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    blocks_->push_back(Block(options));
  }
  register_module("tokens", tokens_);
  register_module("positions", positions_);
  register_module("blocks", blocks_);
  register_module("norm", norm_);
  // An output layer of deviation 1 would begin with a loss far above that of
  // guessing.
  const torch::NoGradGuard no_grad;
  tokens_->weight.mul_(0.02);
  positions_->weight.mul_(0.02);
}

inline at::Tensor GptImpl::forward(const at::Tensor& tokens) {
  const auto places = at::arange(tokens.size(1), at::kLong);
  auto x = tokens_->forward(tokens) + positions_->forward(places);
  for (const auto& block : *blocks_) {
    x = block->as<Block>()->forward(x);
  }
  return at::linear(norm_->forward(x), tokens_->weight);
}

inline at::Tensor GptImpl::loss(const at::Tensor& tokens) {
  const auto length = tokens.size(1) - 1;
  const auto logits = forward(tokens.narrow(1, 0, length));
  const auto targets = tokens.narrow(1, 1, length);
  return at::cross_entropy_loss(
      logits.view({-1, logits.size(-1)}), targets.reshape({-1}));
}

} // namespace zero::bench

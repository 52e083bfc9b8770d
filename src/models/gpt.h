// Defines Gpt: GPT-2's architecture, under the names that Hugging Face's
// GPT2LMHeadModel has, so that weights go from one to the other as they are.
//
//   Gpt gpt(GptOptions{.num_layers = 4});
//   at::Tensor logits = gpt->forward(tokens); // batch x length, of int64
//
// The output layer is the embedding of the tokens, one parameter for both.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace zero::models {

struct GptOptions {
  int64_t vocabulary = 50257;
  int64_t max_length = 1024; // of a sequence
  int64_t width = 768;
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  double dropout = 0.1; // of embeddings, attention and what layers add
  double norm_epsilon = 1e-5;
};

// What attention has seen of a sequence so far, of each layer: generating one
// token after another needs only the new one to be computed.
struct GptCache {
  std::vector<at::Tensor> keys;
  std::vector<at::Tensor> values;

  int64_t length() const {
    return keys.empty() ? 0 : keys.front().size(2);
  }
};

// A linear layer whose weight is in x out, as GPT-2's are.
class Conv1DImpl : public torch::nn::Module {
 public:
  Conv1DImpl(int64_t in, int64_t out, double deviation);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};
TORCH_MODULE(Conv1D);

class GptAttentionImpl : public torch::nn::Module {
 public:
  explicit GptAttentionImpl(const GptOptions& options);
  // Appends to the cache of this layer if there is one.
  at::Tensor forward(const at::Tensor& x, GptCache* cache, size_t layer);

 private:
  GptOptions options_;
  Conv1D c_attn_; // queries, keys and values
  Conv1D c_proj_;
};
TORCH_MODULE(GptAttention);

class GptMlpImpl : public torch::nn::Module {
 public:
  explicit GptMlpImpl(const GptOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  double dropout_;
  Conv1D c_fc_;
  Conv1D c_proj_;
};
TORCH_MODULE(GptMlp);

class GptBlockImpl : public torch::nn::Module {
 public:
  explicit GptBlockImpl(const GptOptions& options);
  at::Tensor forward(const at::Tensor& x, GptCache* cache, size_t layer);

 private:
  torch::nn::LayerNorm ln_1_;
  GptAttention attn_;
  torch::nn::LayerNorm ln_2_;
  GptMlp mlp_;
};
TORCH_MODULE(GptBlock);

// All but the output layer.
class GptTransformerImpl : public torch::nn::Module {
 public:
  explicit GptTransformerImpl(const GptOptions& options);
  at::Tensor forward(const at::Tensor& tokens, GptCache* cache);
  const at::Tensor& token_embedding() const {
    return wte_->weight;
  }

 private:
  double dropout_;
  torch::nn::Embedding wte_;
  torch::nn::Embedding wpe_;
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_;
};
TORCH_MODULE(GptTransformer);

class GptImpl : public torch::nn::Module {
 public:
  // Throws: ConfigError if the sizes do not fit each other.
  explicit GptImpl(const GptOptions& options);

  // Logits of the token after each. With a cache, `tokens` are those after what
  // it has, and it grows by them. Throws: ConfigError if that is more than
  // max_length.
  at::Tensor forward(const at::Tensor& tokens, GptCache* cache = nullptr);

  const GptOptions& options() const {
    return options_;
  }

 private:
  GptOptions options_;
  GptTransformer transformer_;
};
TORCH_MODULE(Gpt);

} // namespace zero::models

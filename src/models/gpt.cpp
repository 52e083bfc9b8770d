#include "models/gpt.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/init.h>

#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"

namespace zero::models {

namespace {

constexpr double kDeviation = 0.02; // of weights at the start

// What is added to the sum of all layers is smaller the more layers there are,
// so that the sum begins with the same size.
double residual_deviation(const GptOptions& options) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(options.num_layers));
}

torch::nn::LayerNorm layer_norm(const GptOptions& options) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({options.width}).eps(options.norm_epsilon));
}

GptOptions checked(const GptOptions& options) {
  for (const auto& [name, value] :
       {std::pair("vocabulary", options.vocabulary),
        std::pair("max_length", options.max_length),
        std::pair("width", options.width),
        std::pair("num_layers", options.num_layers),
        std::pair("num_heads", options.num_heads)}) {
    if (value < 1) {
      throw ConfigError(
          c10::str("gpt: ", name, " is ", value, ", expected at least 1"));
    }
  }
  if (options.width % options.num_heads != 0) {
    throw ConfigError(c10::str(
        "gpt: a width of ",
        options.width,
        " cannot be divided among ",
        options.num_heads,
        " heads. Fix: choose a multiple"));
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw ConfigError(c10::str(
        "gpt: dropout is ", options.dropout, ", expected from 0 to below 1"));
  }
  return options;
}

} // namespace

Conv1DImpl::Conv1DImpl(int64_t in, int64_t out, double deviation)
    : weight_(register_parameter(
          "weight",
          torch::nn::init::normal_(at::zeros({in, out}), 0, deviation))),
      bias_(register_parameter("bias", at::zeros({out}))) {}

at::Tensor Conv1DImpl::forward(const at::Tensor& x) const {
  auto sizes = x.sizes().vec();
  sizes.back() = weight_.size(1);
  return at::addmm(bias_, x.reshape({-1, x.size(-1)}), weight_).view(sizes);
}

GptAttentionImpl::GptAttentionImpl(const GptOptions& options)
    : options_(options),
      c_attn_(options.width, 3 * options.width, kDeviation),
      c_proj_(options.width, options.width, residual_deviation(options)) {
  register_module("c_attn", c_attn_);
  register_module("c_proj", c_proj_);
}

at::Tensor GptAttentionImpl::forward(
    const at::Tensor& x,
    GptCache* cache,
    size_t layer) {
  const auto batch = x.size(0);
  const auto length = x.size(1);
  const auto parts = c_attn_->forward(x)
                         .view({batch, length, 3, options_.num_heads, -1})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
  at::Tensor keys = parts[1];
  at::Tensor values = parts[2];
  // A single new token sees all that came before it; several at the start see
  // what came before each.
  bool is_causal = length > 1;
  at::Tensor mask;
  if (cache != nullptr) {
    if (layer < cache->keys.size()) {
      const auto before = cache->keys[layer].size(2);
      keys = at::cat({cache->keys[layer], keys}, 2);
      values = at::cat({cache->values[layer], values}, 2);
      cache->keys[layer] = keys;
      cache->values[layer] = values;
      if (is_causal) {
        mask = at::ones({length, before + length}, at::kBool).tril(before);
        is_causal = false;
      }
    } else {
      cache->keys.push_back(keys);
      cache->values.push_back(values);
    }
  }
  const auto attended = at::scaled_dot_product_attention(
                            parts[0],
                            keys,
                            values,
                            mask.defined() ? std::optional(mask) : std::nullopt,
                            is_training() ? options_.dropout : 0,
                            is_causal)
                            .transpose(1, 2)
                            .reshape({batch, length, -1});
  return at::dropout(
      c_proj_->forward(attended), options_.dropout, is_training());
}

GptMlpImpl::GptMlpImpl(const GptOptions& options)
    : dropout_(options.dropout),
      c_fc_(options.width, 4 * options.width, kDeviation),
      c_proj_(4 * options.width, options.width, residual_deviation(options)) {
  register_module("c_fc", c_fc_);
  register_module("c_proj", c_proj_);
}

at::Tensor GptMlpImpl::forward(const at::Tensor& x) {
  return at::dropout(
      c_proj_->forward(at::gelu(c_fc_->forward(x), "tanh")),
      dropout_,
      is_training());
}

GptBlockImpl::GptBlockImpl(const GptOptions& options)
    : ln_1_(layer_norm(options)),
      attn_(options),
      ln_2_(layer_norm(options)),
      mlp_(options) {
  register_module("ln_1", ln_1_);
  register_module("attn", attn_);
  register_module("ln_2", ln_2_);
  register_module("mlp", mlp_);
}

at::Tensor GptBlockImpl::forward(
    const at::Tensor& x,
    GptCache* cache,
    size_t layer) {
  const auto middle = x + attn_->forward(ln_1_->forward(x), cache, layer);
  return middle + mlp_->forward(ln_2_->forward(middle));
}

GptTransformerImpl::GptTransformerImpl(const GptOptions& options)
    : dropout_(options.dropout),
      wte_(options.vocabulary, options.width),
      wpe_(options.max_length, options.width),
      ln_f_(layer_norm(options)) {
  torch::nn::init::normal_(wte_->weight, 0, kDeviation);
  torch::nn::init::normal_(wpe_->weight, 0, kDeviation);
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    h_->push_back(GptBlock(options));
  }
  register_module("wte", wte_);
  register_module("wpe", wpe_);
  register_module("h", h_);
  register_module("ln_f", ln_f_);
}

at::Tensor GptTransformerImpl::forward(
    const at::Tensor& tokens,
    GptCache* cache) {
  const auto before = cache != nullptr ? cache->length() : 0;
  const auto places = at::arange(before, before + tokens.size(1), at::kLong);
  auto x = at::dropout(
      wte_->forward(tokens) + wpe_->forward(places), dropout_, is_training());
  size_t layer = 0;
  for (const auto& block : *h_) {
    x = block->as<GptBlock>()->forward(x, cache, layer++);
  }
  return ln_f_->forward(x);
}

GptImpl::GptImpl(const GptOptions& options)
    : options_(checked(options)), transformer_(options) {
  register_module("transformer", transformer_);
}

at::Tensor GptImpl::forward(const at::Tensor& tokens, GptCache* cache) {
  const int64_t length =
      tokens.size(1) + (cache != nullptr ? cache->length() : 0);
  if (length > options_.max_length) {
    throw ConfigError(c10::str(
        "gpt: a sequence of ",
        length,
        " tokens, expected at most ",
        options_.max_length,
        ". Fix: shorten it, or train with a larger max_length"));
  }
  return at::linear(
      transformer_->forward(tokens, cache), transformer_->token_embedding());
}

} // namespace zero::models

// Defines the one list of the trainer's own fields, as config/fields.h is that
// of the engine's.
#pragma once

#include <array>

#include "config/fields.h"
#include "tasks/train_config.h"

namespace zero::tasks {

inline constexpr config::Range kDropout{
    .expected = "a number from 0 to below 1",
    .low = 0,
    .high = 1,
    .excludes_high = true};
inline constexpr config::Range kShare{
    .expected = "a number above 0 and below 1",
    .low = 0,
    .high = 1,
    .excludes_low = true,
    .excludes_high = true};

inline constexpr config::Range kImageSize{
    .expected = "a whole number from 8 to 4096",
    .low = 8,
    .high = 4096};

using Stem = models::ResNetOptions::Stem;
inline constexpr std::array<config::Word<ModelConfig::Type>, 2> kModelWords{
    {{"gpt", ModelConfig::Type::gpt}, {"resnet", ModelConfig::Type::resnet}}};
inline constexpr std::array<config::Word<Stem>, 2> kStemWords{
    {{"imagenet", Stem::imagenet}, {"small", Stem::small}}};
inline constexpr std::array<config::Word<DataConfig::Type>, 5> kDataWords{
    {{"text", DataConfig::Type::text},
     {"tokens", DataConfig::Type::tokens},
     {"cifar10", DataConfig::Type::cifar10},
     {"idx", DataConfig::Type::idx},
     {"images", DataConfig::Type::images}}};
inline constexpr std::array<config::Word<data::TokenizerKind>, 3>
    kTokenizerWords{
        {{"character", data::TokenizerKind::character},
         {"byte", data::TokenizerKind::byte},
         {"gpt2", data::TokenizerKind::gpt2}}};

inline constexpr std::array<config::Word<TrainSection::BatchOnLoss>, 2>
    kBatchOnLossWords{
        {{"keep", TrainSection::BatchOnLoss::keep},
         {"shrink", TrainSection::BatchOnLoss::shrink}}};

// What the data is of.
inline bool has_tokens(DataConfig::Type type) {
  return type == DataConfig::Type::text || type == DataConfig::Type::tokens;
}

template <class Visitor, class Owner>
void visit_model(Visitor&& visit, Owner& model) {
  using config::kCount;
  visit.word("type", model.type, kModelWords);
  visit("load", model.load, config::kAnyNumber);
  switch (model.type) {
    case ModelConfig::Type::gpt:
      visit("n_layer", model.n_layer, kCount);
      visit("n_head", model.n_head, kCount);
      visit("n_embd", model.n_embd, kCount);
      visit("block_size", model.block_size, kCount);
      visit("vocab_size", model.vocab_size, kCount);
      visit("dropout", model.dropout, kDropout);
      return;
    case ModelConfig::Type::resnet:
      visit("depth", model.depth, kCount);
      visit.word("stem", model.stem, kStemWords);
      visit("num_classes", model.num_classes, kCount);
      return;
  }
}

template <class Visitor, class Owner>
void visit_data(Visitor&& visit, Owner& data) {
  visit.word("type", data.type, kDataWords);
  visit("path", data.path, config::kAnyNumber);
  if (has_tokens(data.type)) {
    visit("validation_path", data.validation_path, config::kAnyNumber);
    visit("validation_share", data.validation_share, kShare);
  }
  if (data.type == DataConfig::Type::text) {
    visit.word("tokenizer", data.tokenizer.kind, kTokenizerWords);
  }
  if (has_tokens(data.type)) {
    visit("vocab", data.tokenizer.vocab, config::kAnyNumber);
    visit("merges", data.tokenizer.merges, config::kAnyNumber);
    return;
  }
  if (data.type == DataConfig::Type::images) {
    visit("size", data.size, kImageSize);
  }
  visit("crop_padding", data.crop_padding, config::kWholeNotNegative);
  visit("flip", data.flip, config::kAnyNumber);
  visit("mean", data.mean, config::kAnyNumber);
  visit("std", data.std, config::kPositive);
}

template <class Visitor, class Owner>
void visit_train(Visitor&& visit, Owner& train, bool is_text) {
  visit("steps", train.steps, config::kCount);
  visit("epochs", train.epochs, config::kPositive);
  visit("seed", train.seed, config::kWholeNotNegative);
  visit("evaluate_every", train.evaluate_every, config::kWholeNotNegative);
  visit("evaluate_samples", train.evaluate_samples, config::kCount);
  visit("report_every", train.report_every, config::kCount);
  visit("save_every", train.save_every, config::kWholeNotNegative);
  visit("save_minutes", train.save_minutes, config::kNotNegative);
  visit("save_at_end", train.save_at_end, config::kAnyNumber);
  visit("keep_checkpoints", train.keep_checkpoints, config::kWholeNotNegative);
  visit.word("batch_on_loss", train.batch_on_loss, kBatchOnLossWords);
  if (is_text) {
    visit("sample_tokens", train.sample_tokens, config::kWholeNotNegative);
    visit("sample_prompt", train.sample_prompt, config::kAnyNumber);
  } else {
    visit("label_smoothing", train.label_smoothing, kDropout);
  }
}

} // namespace zero::tasks

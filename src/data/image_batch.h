// Defines batches of images as a network wants them: moved, mirrored and
// normalised.
//
//   auto batch = training_batch(set, numbers, options, position);
//   net->forward(batch.images);
#pragma once

#include <cstdint>
#include <vector>

#include "data/image_set.h"

namespace zero::data {

struct ImageOptions {
  // In training an image is moved by up to so many pixels, and what comes in
  // from outside is black; 0: not at all.
  int64_t shift = 0;
  bool mirror = false; // in training, half of the images
  // Of each channel, of values from 0 to 1: taken off, and divided by. One of
  // each is for all channels.
  std::vector<float> mean{0};
  std::vector<float> deviation{1};
  uint64_t seed = 0; // of chance
};

struct ImageBatch {
  at::Tensor images; // number x channels x height x width, of float32
  at::Tensor labels; // of int64
};

// Throws: ConfigError for a mean or deviation of other than 1 or all channels,
// or a deviation of 0.
void check(const ImageOptions& options, int64_t num_channels);

// `position` is where the first of them stands in the order of training: what
// happens to an image depends on it and the seed alone, not on the rank.
ImageBatch training_batch(
    const ImageSet& set,
    const std::vector<int64_t>& numbers,
    const ImageOptions& options,
    int64_t position);

// As they are, but normalised.
ImageBatch evaluation_batch(
    const ImageSet& set,
    const std::vector<int64_t>& numbers,
    const ImageOptions& options);

} // namespace zero::data

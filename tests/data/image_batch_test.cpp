#include "data/image_batch.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/error_of.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;

// 4 images of 2 channels and 3 x 5 pixels: all bytes different in an image.
ImageSet numbered() {
  return in_memory(
      at::arange(4 * 30).view({4, 2, 3, 5}).to(at::kByte),
      at::tensor({5, 6, 7, 8}, at::kLong),
      10);
}

TEST(ImageBatch, ForEvaluationImagesAreOnlyNormalised) {
  const ImageOptions options{
      .shift = 4, .mirror = true, .mean = {0.5, 0.25}, .deviation = {2, 0.5}};
  const auto batch = evaluation_batch(numbered(), {2, 0}, options);
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({7, 5}, at::kLong)));
  EXPECT_NEAR(
      batch.images[0][0][1][2].item<float>(), (67 / 255.0 - 0.5) / 2, 1e-6);
  EXPECT_NEAR(
      batch.images[1][1][2][4].item<float>(), (29 / 255.0 - 0.25) / 0.5, 1e-6);
}

// Each image of a batch is one of the shifts and mirrors of what it was, and in
// many batches all of them come.
TEST(ImageBatch, ForTrainingImagesAreMovedAndMirrored) {
  const auto set = numbered();
  const ImageOptions options{
      .shift = 1, .mirror = true, .deviation = {1 / 255.0F}, .seed = 3};
  const auto plain = evaluation_batch(set, {1}, options).images[0];
  const auto padded = at::constant_pad_nd(plain, {1, 1, 1, 1}, 0);
  const auto padded_mirror =
      at::constant_pad_nd(plain.flip(2), {1, 1, 1, 1}, 0);
  std::set<int> seen;
  for (int64_t position = 0; position < 200; ++position) {
    const auto image = training_batch(set, {1}, options, position).images[0];
    int found = -1;
    for (int way = 0; way < 18; ++way) {
      const auto cut = (way < 9 ? padded : padded_mirror)
                           .narrow(1, way % 9 / 3, 3)
                           .narrow(2, way % 3, 5);
      found = at::allclose(image, cut) ? way : found;
    }
    ASSERT_GE(found, 0) << position;
    seen.insert(found);
  }
  EXPECT_EQ(seen.size(), 18);
}

TEST(ImageBatch, WhatHappensDependsOnThePlaceInTheOrderAlone) {
  const auto set = numbered();
  const ImageOptions options{.shift = 2, .mirror = true, .seed = 1};
  const auto all = training_batch(set, {3, 1, 2, 0}, options, 100);
  const auto first = training_batch(set, {3, 1}, options, 100);
  const auto second = training_batch(set, {2, 0}, options, 102);
  EXPECT_TRUE(at::equal(all.images.narrow(0, 0, 2), first.images));
  EXPECT_TRUE(at::equal(all.images.narrow(0, 2, 2), second.images));
}

TEST(ImageBatch, OptionsThatDoNotFitAreRefused) {
  EXPECT_TRUE(
      has(error_of([] {
            check({.mean = {1, 2}}, 3);
          }),
          "mean has 2 values, expected 1 or one for each of 3"));
  EXPECT_TRUE(
      has(error_of([] {
            check({.deviation = {1, 0, 1}}, 3);
          }),
          "deviation is 0"));
  EXPECT_TRUE(has(error_of([] { check({.shift = -1}, 3); }), "shift is -1"));
  check({.mean = {1, 2, 3}}, 3);
}

} // namespace
} // namespace zero::data

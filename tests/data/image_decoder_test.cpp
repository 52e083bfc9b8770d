#include "data/image_decoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "data/make_image.h"
#include "engine/error_of.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;
using test::make_jpeg;
using test::make_png;

at::Tensor decode(const std::string& bytes, int64_t num_channels = 3) {
  return decode_image(bytes, "'the image'", num_channels);
}

std::string why_refused(const std::string& bytes) {
  try {
    decode(bytes);
  } catch (const CorruptionError& error) {
    return error.what();
  }
  return "not refused";
}

std::vector<uint8_t> repeated(const std::vector<uint8_t>& pixel, int count) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < count; ++i) {
    pixels.insert(pixels.end(), pixel.begin(), pixel.end());
  }
  return pixels;
}

// Bytes that are all different as long as there are different ones.
std::vector<uint8_t> counted(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 7);
  }
  return bytes;
}

// channels x height x width of what is pixel by pixel.
at::Tensor planes_of(
    const std::vector<uint8_t>& pixels,
    int64_t height,
    int64_t width) {
  const at::Tensor all = at::tensor(at::ArrayRef<uint8_t>(pixels), at::kByte);
  return all.view({height, width, -1}).permute({2, 0, 1});
}

// JPEG changes values a little.
void expect_colour(
    const at::Tensor& image,
    const std::vector<int>& colour,
    int tolerance) {
  ASSERT_EQ(image.size(0), static_cast<int64_t>(colour.size()));
  for (size_t channel = 0; channel < colour.size(); ++channel) {
    const at::Tensor plane = image[static_cast<int64_t>(channel)];
    EXPECT_NEAR(plane.min().item<int>(), colour[channel], tolerance);
    EXPECT_NEAR(plane.max().item<int>(), colour[channel], tolerance);
  }
}

TEST(ImageDecoderTest, JpegIsDecodedAsColourAndAsGrey) {
  for (const bool progressive : {false, true}) {
    const std::string coloured = make_jpeg(
        {.width = 17, .height = 9, .progressive = progressive},
        repeated({200, 100, 50}, 17 * 9));
    EXPECT_EQ(decode(coloured).sizes(), at::IntArrayRef({3, 9, 17}));
    expect_colour(decode(coloured), {200, 100, 50}, 2);
    expect_colour(decode(coloured, 1), {124}, 2); // 0.299, 0.587, 0.114
    const std::string grey = make_jpeg(
        {.width = 5,
         .height = 3,
         .num_components = 1,
         .progressive = progressive},
        repeated({77}, 15));
    expect_colour(decode(grey), {77, 77, 77}, 1);
    expect_colour(decode(grey, 1), {77}, 1);
  }
}

TEST(ImageDecoderTest, RowsAndColumnsOfJpegAreInPlace) {
  std::vector<uint8_t> pixels; // brighter to the right, and downwards
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 32; ++x) {
      pixels.push_back(static_cast<uint8_t>(6 * x + 2 * y));
    }
  }
  const at::Tensor image = decode(
      make_jpeg({.width = 32, .height = 16, .num_components = 1}, pixels), 1);
  const at::Tensor difference =
      image.to(at::kInt).sub(planes_of(pixels, 16, 32).to(at::kInt)).abs();
  EXPECT_LE(difference.max().item<int>(), 2);
}

TEST(ImageDecoderTest, CmykBecomesRedGreenAndBlue) {
  // Light left of cyan, magenta, yellow and black ink.
  const auto light = repeated({200, 100, 50, 204}, 64);
  const std::string adobe =
      make_jpeg({.width = 8, .height = 8, .num_components = 4}, light);
  expect_colour(decode(adobe), {160, 80, 40}, 2);
  expect_colour(decode(adobe, 1), {99}, 2);
  const auto ink = repeated({55, 155, 205, 51}, 64);
  const std::string plain = make_jpeg(
      {.width = 8, .height = 8, .num_components = 4, .adobe_marker = false},
      ink);
  expect_colour(decode(plain), {160, 80, 40}, 2);
}

TEST(ImageDecoderTest, PngIsDecodedExactly) {
  for (const bool interlaced : {false, true}) {
    const auto pixels = counted(size_t{13} * 11 * 3);
    const at::Tensor image = decode(make_png(
        {.width = 13, .height = 11, .interlaced = interlaced}, pixels));
    EXPECT_TRUE(at::equal(image, planes_of(pixels, 11, 13))) << interlaced;
    const auto greys = counted(size_t{13} * 11);
    const std::string grey = make_png(
        {.width = 13,
         .height = 11,
         .color_type = PNG_COLOR_TYPE_GRAY,
         .interlaced = interlaced},
        greys);
    EXPECT_TRUE(at::equal(decode(grey, 1), planes_of(greys, 11, 13)));
    EXPECT_TRUE(
        at::equal(decode(grey), planes_of(greys, 11, 13).expand({3, -1, -1})));
  }
}

TEST(ImageDecoderTest, EveryKindOfPngIsDecoded) {
  const auto expect = [](const test::PngRequest& request,
                         const std::vector<uint8_t>& pixels,
                         const std::vector<uint8_t>& colours) {
    const at::Tensor image = decode(make_png(request, pixels));
    EXPECT_TRUE(
        at::equal(image, planes_of(colours, request.height, request.width)))
        << image;
  };
  expect(
      {.width = 3, .color_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 1},
      {0b10100000},
      {255, 255, 255, 0, 0, 0, 255, 255, 255});
  expect(
      {.width = 2, .color_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 4},
      {0x1f},
      {17, 17, 17, 255, 255, 255});
  expect(
      {.width = 2,
       .color_type = PNG_COLOR_TYPE_PALETTE,
       .bit_depth = 2,
       .palette = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}},
      {0b10010000},
      {7, 8, 9, 4, 5, 6});
  expect( // 16 bits are rounded
      {.width = 1, .bit_depth = 16},
      {0x12, 0x00, 0x12, 0xff, 0xff, 0xff},
      {18, 19, 255});
  expect( // what is transparent keeps its colour
      {.width = 2, .color_type = PNG_COLOR_TYPE_RGB_ALPHA},
      {10, 20, 30, 0, 40, 50, 60, 128},
      {10, 20, 30, 40, 50, 60});
  expect(
      {.width = 1, .color_type = PNG_COLOR_TYPE_GRAY_ALPHA},
      {10, 0},
      {10, 10, 10});
}

TEST(ImageDecoderTest, WhatIsNoImageIsRefused) {
  EXPECT_TRUE(has(why_refused(""), "'the image' cannot be used: it is empty"));
  for (const std::string bytes : {"GIF89a", "\xff\xd8", "\x89PNG", "a"}) {
    EXPECT_TRUE(has(why_refused(bytes), "neither a JPEG nor a PNG file"))
        << why_refused(bytes);
  }
  EXPECT_TRUE(
      has(error_of([] {
            decode(make_png({}, {1, 2, 3}), 4);
          }),
          "images cannot have 4 channels"));
}

TEST(ImageDecoderTest, CutAnywhereIsRefused) {
  const auto pixels = counted(size_t{24} * 24 * 3);
  const std::vector<std::string> images{
      make_jpeg({.width = 24, .height = 24}, pixels),
      make_jpeg({.width = 24, .height = 24, .progressive = true}, pixels),
      make_png({.width = 24, .height = 24}, pixels),
      make_png({.width = 24, .height = 24, .interlaced = true}, pixels)};
  for (const auto& whole : images) {
    EXPECT_EQ(why_refused(whole), "not refused");
    for (size_t size = 0; size < whole.size(); size += size < 700 ? 1 : 7) {
      EXPECT_NE(why_refused(whole.substr(0, size)), "not refused") << size;
    }
    EXPECT_NE(why_refused(whole.substr(0, whole.size() - 1)), "not refused");
  }
}

TEST(ImageDecoderTest, ChangedBytesOfPngAreNoticed) {
  const std::string whole =
      make_png({.width = 24, .height = 24}, counted(size_t{24} * 24 * 3));
  for (size_t place = 0; place < whole.size(); ++place) {
    std::string bytes = whole;
    bytes[place] ^= '\x10';
    EXPECT_NE(why_refused(bytes), "not refused") << place;
  }
}

// Changes what the first header says of width and height.
std::string with_png_sizes(std::string bytes, uint32_t width, uint32_t height) {
  for (size_t i = 0; i < 4; ++i) {
    bytes[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    bytes[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  const uint32_t sum = static_cast<uint32_t>(::crc32(
      0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17)); // type, data
  for (size_t i = 0; i < 4; ++i) {
    bytes[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
  }
  return bytes;
}

TEST(ImageDecoderTest, EnormousSizesAreRefusedBeforeMemoryIsTaken) {
  const std::string png = make_png({}, {1, 2, 3});
  EXPECT_EQ(with_png_sizes(png, 1, 1), png);
  for (const auto& [width, height] :
       {std::pair<uint32_t, uint32_t>(65'501, 1),
        {1, 65'501},
        {20'000, 20'000},
        {0x7fffffff, 0x7fffffff}}) {
    const std::string text = why_refused(with_png_sizes(png, width, height));
    EXPECT_TRUE(has(
        text,
        c10::str("it would have ", width, " x ", height, " pixels, expected")))
        << text;
  }
  EXPECT_TRUE(has(why_refused(with_png_sizes(png, 0, 1)), "damaged"));

  std::string jpeg = make_jpeg({.num_components = 1}, {1});
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
  EXPECT_TRUE(has(why_refused(jpeg), "it would have 65280 x 65280 pixels"))
      << why_refused(jpeg);
  jpeg.replace(frame + 5, 4, "\xff\xff\xff\xff");
  EXPECT_NE(why_refused(jpeg), "not refused");
}

TEST(ImageDecoderTest, ScansWithoutEndAreRefused) {
  const auto in_scans = [](int scans_per_coefficient) {
    return make_jpeg(
        {.width = 8,
         .height = 8,
         .num_components = 1,
         .progressive = true,
         .scans_per_coefficient = scans_per_coefficient},
        counted(64));
  };
  EXPECT_EQ(why_refused(in_scans(3)), "not refused"); // 190 scans
  const std::string text = why_refused(in_scans(4)); // 253
  EXPECT_TRUE(has(text, "it has more than 200 scans")) << text;
}

TEST(ImageDecoderTest, BytesBeforeAMarkerDoNoHarm) {
  std::string bytes = make_jpeg({.num_components = 1}, {50});
  bytes.insert(bytes.size() - 2, 1, '\0');
  expect_colour(decode(bytes, 1), {50}, 1);
}

TEST(ImageDecoderTest, ResizingTakesTheMeanOfWhatBecomesOne) {
  const at::Tensor flat = at::full({3, 40, 30}, 90, at::kByte);
  EXPECT_TRUE(at::equal(
      resize_image(flat, 7, 50), at::full({3, 7, 50}, 90, at::kByte)));
  // Single columns of white would vanish if pixels were only picked.
  at::Tensor stripes = at::zeros({1, 32, 32}, at::kByte);
  stripes.slice(2, 0, 32, 4).fill_(200);
  const at::Tensor small = resize_image(stripes, 4, 4);
  EXPECT_EQ(small.scalar_type(), at::kByte);
  expect_colour(small, {50}, 13);
  EXPECT_TRUE(
      has(error_of([&] { resize_image(flat, 0, 5); }), "resized to 5 x 0"));
  EXPECT_TRUE(
      has(error_of([&] { resize_image(flat, 5, 65'501); }),
          "Fix: ask for 1 to 65500 a side"));
}

TEST(ImageDecoderTest, FittingTakesTheMiddle) {
  const at::Tensor row = at::arange(10, at::kByte).view({1, 1, 10});
  const at::Tensor wide = row.expand({3, 4, 10}); // columns 3 to 6
  EXPECT_TRUE(at::equal(fit_image(wide, 4), wide.slice(2, 3, 7)));
  const at::Tensor high = wide.transpose(1, 2);
  EXPECT_TRUE(at::equal(fit_image(high, 4), high.slice(1, 3, 7)));
  EXPECT_EQ(fit_image(wide, 9).sizes(), at::IntArrayRef({3, 9, 9}));
  // However long, it needs no more memory than itself.
  const at::Tensor line = at::zeros({3, 1, 65'500}, at::kByte);
  EXPECT_EQ(fit_image(line, 500).sizes(), at::IntArrayRef({3, 500, 500}));
}

} // namespace
} // namespace zero::data

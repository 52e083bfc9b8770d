// Defines how JPEG and PNG files become tensors, of the size that a network
// wants. Nothing in a file is believed: sizes are checked before memory is
// taken for them, and what is cut short is refused, not filled up with grey.
//
//   at::Tensor image = decode_image(bytes, "'cat.jpg'", /*num_channels=*/3);
//   at::Tensor square = fit_image(image, 224); // 3 x 224 x 224
//
// All of it can be called by several threads at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace zero::data {

constexpr int64_t kMaxImageSide = 65'500; // JPEG's own limit
constexpr int64_t kMaxImagePixels = 178'000'000;

// The image in a JPEG or PNG file, whose first bytes say which it is: channels
// x height x width, of uint8. `num_channels` is 3 for red, green and blue, or 1
// for grey, which a coloured image is turned into by the weights of BT.601.
// What is transparent gets the colour that is stored for it, as where others
// remove the alpha channel; 16 bits become 8; CMYK becomes red, green and blue
// without a colour profile. Other profiles, gamma and the camera's orientation
// are left out, too. `title` is how a message calls the file.
// Throws: ConfigError for other than 1 or 3 channels; CorruptionError for what
// is neither, is cut short or damaged, or is larger than the limits above.
at::Tensor decode_image(
    std::string_view bytes,
    const std::string& title,
    int64_t num_channels);

// Linear between pixels, and the mean over those that become one, so that thin
// lines do not vanish. `image` is channels x height x width, of uint8.
// Throws: ConfigError for a size that is not from 1 to kMaxImageSide.
at::Tensor resize_image(const at::Tensor& image, int64_t height, int64_t width);

// The middle of the image, `size` in height and width: its shorter side is seen
// whole, and as much of the longer one. Throws: as resize_image().
at::Tensor fit_image(const at::Tensor& image, int64_t size);

} // namespace zero::data

#include "data/image_batch.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/permutation.h"

namespace zero::data {

namespace {

constexpr int64_t kChances = int64_t{1} << 62;

// How one image is changed.
struct Change {
  int64_t down = 0;
  int64_t right = 0;
  bool mirrored = false;
};

Change change_at(int64_t position, const ImageOptions& options) {
  const int64_t chance = shuffled(position, kChances, options.seed);
  const int64_t places = 2 * options.shift + 1;
  return {
      .down = chance % places - options.shift,
      .right = chance / places % places - options.shift,
      .mirrored = options.mirror && chance / (places * places) % 2 == 1};
}

float of_channel(const std::vector<float>& values, int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

struct Plane {
  int64_t height;
  int64_t width;
};

// One channel of one image. `scale` and `offset` make 0 to 255 what the network
// wants.
void write_plane(
    const uint8_t* from,
    float* to,
    Plane plane,
    const Change& change,
    float scale,
    float offset) {
  for (int64_t y = 0; y < plane.height; ++y) {
    const int64_t from_y = y - change.down;
    const bool inside = from_y >= 0 && from_y < plane.height;
    const uint8_t* row = inside ? from + from_y * plane.width : nullptr;
    for (int64_t x = 0; x < plane.width; ++x) {
      const int64_t moved = x - change.right;
      const int64_t from_x = change.mirrored ? plane.width - 1 - moved : moved;
      const bool seen = row != nullptr && from_x >= 0 && from_x < plane.width;
      const float value = seen ? static_cast<float>(row[from_x]) : 0.0F;
      *to++ = scale * value + offset;
    }
  }
}

template <class ChangeOf>
ImageBatch make_batch(
    const ImageSet& set,
    const std::vector<int64_t>& numbers,
    const ImageOptions& options,
    ChangeOf change_of) {
  const auto count = static_cast<int64_t>(numbers.size());
  const int64_t num_channels = set.image_sizes[0];
  const Plane plane{set.image_sizes[1], set.image_sizes[2]};
  ImageBatch batch{
      .images = at::empty({count, num_channels, plane.height, plane.width}),
      .labels = at::empty({count}, at::kLong)};
  auto* to = batch.images.mutable_data_ptr<float>();
  const int64_t plane_numel = plane.height * plane.width;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t number = numbers[static_cast<size_t>(i)];
    batch.labels.mutable_data_ptr<int64_t>()[i] =
        set.labels.const_data_ptr<int64_t>()[number];
    const at::Tensor image = set.image(number);
    const auto* from = image.const_data_ptr<uint8_t>();
    const Change change = change_of(i);
    for (int64_t channel = 0; channel < num_channels; ++channel) {
      const float deviation = of_channel(options.deviation, channel);
      write_plane(
          from + channel * plane_numel,
          to,
          plane,
          change,
          1 / (255 * deviation),
          -of_channel(options.mean, channel) / deviation);
      to += plane_numel;
    }
  }
  return batch;
}

} // namespace

void check(const ImageOptions& options, int64_t num_channels) {
  for (const auto& [name, values] :
       {std::pair("mean", &options.mean),
        std::pair("deviation", &options.deviation)}) {
    const auto count = static_cast<int64_t>(values->size());
    if (count != 1 && count != num_channels) {
      throw ConfigError(c10::str(
          name,
          " has ",
          count,
          " values, expected 1 or one for each of ",
          num_channels,
          " channels"));
    }
  }
  if (std::count(options.deviation.begin(), options.deviation.end(), 0.0F) >
      0) {
    throw ConfigError(
        "deviation is 0, expected a number that can be divided "
        "by");
  }
  if (options.shift < 0) {
    throw ConfigError(
        c10::str("shift is ", options.shift, ", expected 0 or more"));
  }
}

ImageBatch training_batch(
    const ImageSet& set,
    const std::vector<int64_t>& numbers,
    const ImageOptions& options,
    int64_t position) {
  return make_batch(set, numbers, options, [&](int64_t i) {
    return change_at(position + i, options);
  });
}

ImageBatch evaluation_batch(
    const ImageSet& set,
    const std::vector<int64_t>& numbers,
    const ImageOptions& options) {
  return make_batch(set, numbers, options, [](int64_t) { return Change{}; });
}

} // namespace zero::data

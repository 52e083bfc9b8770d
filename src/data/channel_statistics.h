// Defines measure_channels(): how bright the images of a set are, by which they
// are normalised.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image_set.h"

namespace zero::data {

// Of each channel, of values from 0 to 1.
struct ChannelStatistics {
  std::vector<float> mean;
  std::vector<float> deviation; // 1 where all values are alike
};

// Of at most so many images, spread evenly over the set. Throws: what reading
// them does.
ChannelStatistics measure_channels(const ImageSet& set, int64_t max_images);

} // namespace zero::data

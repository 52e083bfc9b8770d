#include "data/channel_statistics.h"

#include <algorithm>
#include <cmath>

namespace zero::data {

ChannelStatistics measure_channels(const ImageSet& set, int64_t max_images) {
  const int64_t num_images = std::min(set.size(), max_images);
  const auto num_channels = static_cast<size_t>(set.image_sizes[0]);
  const int64_t plane_numel = set.image_sizes[1] * set.image_sizes[2];
  std::vector<int64_t> sums(num_channels);
  std::vector<int64_t> squares(num_channels);
  for (int64_t i = 0; i < num_images; ++i) {
    const at::Tensor image = set.image(i * set.size() / num_images);
    const auto* value = image.const_data_ptr<uint8_t>();
    for (size_t channel = 0; channel < num_channels; ++channel) {
      for (int64_t k = 0; k < plane_numel; ++k, ++value) {
        sums[channel] += *value;
        squares[channel] += int64_t{*value} * *value;
      }
    }
  }
  ChannelStatistics statistics;
  const auto count = static_cast<double>(num_images * plane_numel);
  for (size_t channel = 0; channel < num_channels; ++channel) {
    const auto sum = static_cast<double>(sums[channel]);
    const double variance =
        (static_cast<double>(squares[channel]) - sum * sum / count) /
        std::max(1.0, count - 1);
    statistics.mean.push_back(static_cast<float>(sum / count / 255));
    statistics.deviation.push_back(
        variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1);
  }
  return statistics;
}

} // namespace zero::data

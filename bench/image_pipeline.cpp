// Measures how many images a second one thread moves, mirrors and normalises,
// as it does for training:
//
//   image_pipeline data/cifar-10-batches-bin [SECONDS]
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "data/image_batch.h"
#include "data/image_set.h"
#include "data/permutation.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: image_pipeline FOLDER [SECONDS]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5;
  at::set_num_threads(1);
  try {
    const auto set = zero::data::read_cifar10({folder + "/data_batch_1.bin"});
    zero::data::ImageOptions options;
    options.shift = 4;
    options.mirror = true;
    options.mean = {0.49F, 0.48F, 0.45F};
    options.deviation = {0.25F, 0.24F, 0.26F};
    constexpr int64_t kBatch = 64;
    int64_t position = 0;
    const auto start = zero::base::Clock::now();
    while (zero::base::seconds_since(start) < seconds) {
      std::vector<int64_t> numbers;
      for (int64_t i = 0; i < kBatch; ++i) {
        numbers.push_back(zero::data::shuffled(
            (position + i) % set.size(), set.size(), /*key=*/1));
      }
      zero::data::training_batch(set, numbers, options, position);
      position += kBatch;
    }
    std::printf(
        "%.0f images a second, batches of %lld, one thread\n",
        static_cast<double>(position) / zero::base::seconds_since(start),
        static_cast<long long>(kBatch));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "image_pipeline: %s\n", error.what());
    return 1;
  }
  return 0;
}

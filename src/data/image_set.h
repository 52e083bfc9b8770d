// Defines ImageSet: images and their labels, and how the files of CIFAR-10 and
// MNIST become one.
//
//   ImageSet set = read_cifar10({"data_batch_1.bin", "data_batch_2.bin"});
//   set.image(7); // 3 x 32 x 32, bytes
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zero::data {

struct ImageSet {
  at::Tensor labels; // of int64
  int64_t num_classes = 0;
  std::vector<std::string> class_names; // empty if the files do not say
  std::vector<int64_t> image_sizes; // channels, height, width
  // The image of a number below size(), contiguous, of uint8. Any thread may
  // ask for any. Throws: what reading it does.
  std::function<at::Tensor(int64_t number)> image;

  int64_t size() const {
    return labels.size(0);
  }
};

// Of images that are all in memory: number x channels x height x width, of
// uint8.
ImageSet in_memory(
    const at::Tensor& images,
    const at::Tensor& labels,
    int64_t num_classes);

// Of the binary version: a byte for the label, then red, green and blue.
// Throws: IoError; CorruptionError for files that are cut short and labels out
// of range.
ImageSet read_cifar10(const std::vector<std::string>& paths);

// MNIST's format, which Fashion-MNIST has too. Throws: IoError; CorruptionError
// for files that are cut short, are something else, or have different numbers
// of images and labels, and for labels of `num_classes` and more.
ImageSet read_idx(
    const std::string& images_path,
    const std::string& labels_path,
    int64_t num_classes);

} // namespace zero::data

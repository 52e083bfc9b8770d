// Defines ImageSet: images and labels in memory, and how the files of CIFAR-10
// and MNIST become one.
//
//   ImageSet set = read_cifar10({"data_batch_1.bin", "data_batch_2.bin"});
//   set.images; // 20000 x 3 x 32 x 32, bytes
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace zero::data {

struct ImageSet {
  at::Tensor images; // number x channels x height x width, of uint8
  at::Tensor labels; // number, of int64
  int64_t num_classes = 0;

  int64_t size() const {
    return labels.size(0);
  }
};

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

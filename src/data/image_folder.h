// Defines folders of images with a folder for each class, as ImageNet is often
// kept:
//
//   birds/1.jpg  birds/2.png  cats/1.jpeg
//
//   ImageSet set = read_image_folder("birds-and-cats", 224, 3, num_threads);
//   set.num_classes; // 2: birds are 0, cats are 1
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/image_set.h"

namespace zero::data {

struct ImageFolder {
  std::vector<std::string> classes; // a class's number is its place
  std::vector<std::pair<std::string, int64_t>> files; // path and class
};

// The files of all class folders that end in .jpg, .jpeg or .png, in capitals
// or not. Everything is sorted by its bytes, because systems list folders in
// any order, and numbers have to be alike on all ranks. What begins with a dot
// and all other files are passed over, and so are folders within those of the
// classes.
// Throws: IoError if the folder cannot be read; ConfigError if it has no class
// folders, or naming all of those that have no images or cannot be read.
ImageFolder list_image_folder(const std::string& root);

// Decodes all of them to `size` x `size`, as fit_image() does, and keeps them
// in memory. If files are wrong, the error is about the first of them, however
// many threads there are. Throws: as list_image_folder() and decode_image();
// ConfigError for a size, channels or threads that make no sense; IoError if
// memory does not suffice.
ImageSet read_image_folder(
    const std::string& root,
    int64_t size,
    int64_t num_channels,
    int num_threads);

} // namespace zero::data

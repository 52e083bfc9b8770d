// Defines folders of images with a folder for each class, as ImageNet is often
// kept:
//
//   birds/1.jpg  birds/2.png  cats/1.jpeg
//
//   ImageSet set = open_image_folder("birds-and-cats", 224, 3);
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

// All of them, each decoded to `size` x `size`, as fit_image() does, whenever
// it is asked for: a folder may be larger than memory. Throws: as
// list_image_folder(); ConfigError for a size or channels that make no sense;
// and when an image is asked for as decode_image(), and IoError.
ImageSet open_image_folder(
    const std::string& root,
    int64_t size,
    int64_t num_channels);

} // namespace zero::data

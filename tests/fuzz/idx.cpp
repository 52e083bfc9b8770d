// Files of MNIST. The first byte of the input says how long the file of labels
// is; behind that comes the one of images.
#include <algorithm>

#include "data/image_set.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const auto all = zero::fuzz::text_of(data + 1, size - 1);
  const size_t labels_size = std::min<size_t>(data[0], all.size());
  const zero::fuzz::InputFile labels(all.substr(0, labels_size));
  const zero::fuzz::InputFile images(all.substr(labels_size));
  return zero::fuzz::try_input(
      [&] { zero::data::read_idx(images.path(), labels.path(), 10); });
}

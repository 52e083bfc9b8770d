// Files of CIFAR-10.
#include "data/image_set.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const zero::fuzz::InputFile file(zero::fuzz::text_of(data, size));
  return zero::fuzz::try_input([&] {
    zero::data::read_cifar10({file.path(), file.path()});
  });
}

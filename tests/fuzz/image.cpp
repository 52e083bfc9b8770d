// JPEG and PNG files, in colour and in grey. Large ones are not resized: that
// says nothing about the decoder, and takes long.
#include "data/image_decoder.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = zero::fuzz::text_of(data, size);
  for (const int64_t num_channels : {1, 3}) {
    zero::fuzz::try_input([&] {
      const auto image = zero::data::decode_image(bytes, "input", num_channels);
      if (image.numel() < 10'000) {
        zero::data::fit_image(image, 7);
      }
    });
  }
  return 0;
}

// Safetensors files: all tensors are read.
#include "checkpoint/safetensors_reader.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const zero::fuzz::InputFile file(zero::fuzz::text_of(data, size));
  return zero::fuzz::try_input([&] {
    const zero::checkpoint::SafetensorsReader reader(file.path());
    for (const auto& entry : reader.entries()) {
      reader.read(entry.name);
    }
  });
}

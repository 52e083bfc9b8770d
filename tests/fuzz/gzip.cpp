// Compressed files, and those that may be.
#include "data/gzip.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLimit = size_t{128} << 10; // larger is slower
  const zero::fuzz::InputFile file(zero::fuzz::text_of(data, size));
  for (const auto read :
       {zero::data::read_gzip_file, zero::data::read_maybe_gzip}) {
    zero::fuzz::try_input([&] {
      if (read(file.path(), "input", kLimit).size() > kLimit) {
        std::abort();
      }
    });
  }
  return 0;
}

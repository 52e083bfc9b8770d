// Manifests of checkpoints: the input as it is, and with the checksum at its
// end that lets it through to what is behind. What is accepted must be written
// and read again without a change.
#include "checkpoint/manifest.h"

#include "base/checksum.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using zero::checkpoint::Manifest;
  const std::string_view input = zero::fuzz::text_of(data, size);
  zero::fuzz::try_input([&] { Manifest::from_json(input, "input"); });

  const std::string text = std::string(input) + ",\n \"checksum\": \"" +
      zero::base::checksum_text(zero::base::checksum_of(input)) + "\"\n}\n";
  std::string written;
  zero::fuzz::try_input(
      [&] { written = Manifest::from_json(text, "input").to_json(); });
  if (!written.empty() &&
      Manifest::from_json(written, "written").to_json() != written) {
    std::abort();
  }
  return 0;
}

// Configurations, and JSON of all kinds. What is accepted must be written and
// read again without a change.
#include <zero/config.h>

#include "config/parse_json.h"
#include "fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = zero::fuzz::text_of(data, size);
  zero::fuzz::try_input([&] {
    zero::config::Report report("input");
    zero::config::parse_json(text, "input", report);
  });
  std::string written;
  zero::fuzz::try_input(
      [&] { written = zero::Config::from_json(text, "input").to_json(); });
  if (!written.empty() &&
      zero::Config::from_json(written, "written").to_json() != written) {
    std::abort();
  }
  return 0;
}

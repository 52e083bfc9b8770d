// Defines how a fuzz target hands its input to what reads files, and what may
// come of it.
//
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
//     const zero::fuzz::InputFile file(zero::fuzz::text_of(data, size));
//     return zero::fuzz::try_input([&] { TokenFile(file.path()); });
//   }
#pragma once

#include <sys/mman.h>
#include <zero/error.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/file_io.h"
#include "base/unique_fd.h"

namespace zero::fuzz {

// A file in memory: thousands are made in a second.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes)
      : file_(::memfd_create("input", MFD_CLOEXEC)) {
    if (!file_.valid() || base::write_all(file_.get(), bytes) != 0) {
      std::abort();
    }
  }

  std::string path() const {
    return "/proc/self/fd/" + std::to_string(file_.get());
  }

 private:
  base::UniqueFd file_;
};

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Bytes may be refused, but only with an error of libzero's: every other one
// goes through, and ends the program.
template <class Call>
int try_input(Call call) {
  try {
    call();
  } catch (const Error&) { // as is expected
  }
  return 0;
}

} // namespace zero::fuzz

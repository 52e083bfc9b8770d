// Defines EventFile: scalars and texts of a run in the form that TensorBoard
// reads, written as they come.
//
//   EventFile events("runs/first");
//   events.add_scalar("loss", 2.5, /*step=*/10);
//
// A record that is not whole, because the program was killed, is passed over by
// TensorBoard.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace zero::report {

class EventFile {
 public:
  // Makes a new file in the folder. Throws: IoError.
  explicit EventFile(const std::string& folder);

  // Throws: IoError.
  void add_scalar(std::string_view tag, double value, int64_t step);
  void add_text(std::string_view tag, std::string_view text, int64_t step);

  const std::string& path() const {
    return path_;
  }

 private:
  void write_event(std::string_view fields, int64_t step);

  std::string path_;
  base::UniqueFd file_;
};

// The checksum of the format: CRC-32C, rotated and moved, as the format has it.
uint32_t masked_crc32c(std::string_view bytes);

} // namespace zero::report

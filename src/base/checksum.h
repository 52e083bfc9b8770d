// Defines Checksum: whether bytes are what they were. XXH3 of 64 bits finds
// what disks and networks do; not what somebody does on purpose.
//
//   Checksum checksum;
//   checksum.add(data, bytes);
//   checksum_text(checksum.value());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace zero::base {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(const void* data, size_t bytes);
  uint64_t value() const; // of all that was added
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t checksum_of(std::string_view bytes);

// 16 hexadecimal digits.
inline constexpr size_t kChecksumDigits = 16;
std::string checksum_text(uint64_t checksum);

} // namespace zero::base

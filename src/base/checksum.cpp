#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zero::base {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  reset();
}

Checksum::~Checksum() = default;

void Checksum::add(const void* data, size_t bytes) {
  XXH3_64bits_update(&state_->xxh3, data, bytes);
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

void Checksum::reset() {
  XXH3_64bits_reset(&state_->xxh3);
}

uint64_t checksum_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(uint64_t checksum) {
  std::string text(kChecksumDigits, '0');
  for (size_t i = kChecksumDigits; i-- > 0; checksum >>= 4) {
    text[i] = "0123456789abcdef"[checksum & 0xf];
  }
  return text;
}

} // namespace zero::base

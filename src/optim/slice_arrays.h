// Defines SliceArrays: a Slice as raw memory, of which a thread takes its part.
// Adam and Sgd make one in every update().
//
//   const SliceArrays arrays(slice, 2);
//   for_blocks(arrays.numel(), [&](int64_t begin, int64_t end) {
//     kernel(arrays.parameter(begin), arrays.gradient(begin), ...);
//   });
#pragma once

#include <zero/optimizer.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace zero::optim {

class SliceArrays {
 public:
  // Throws: ConfigError if the tensors are not what Slice says they are, or of
  // a type or device that there are no kernels for.
  SliceArrays(const Slice& slice, int num_states);

  int64_t numel() const {
    return numel_;
  }
  // Of the parameter, for the tables of kernels.h.
  size_t type() const {
    return type_;
  }
  void* parameter(int64_t at) const {
    return parameter_ + at * parameter_bytes_;
  }
  const void* gradient(int64_t at) const {
    return gradient_ + at * state_bytes_;
  }
  void* state(size_t which, int64_t at) const {
    return states_[which] + at * state_bytes_;
  }

 private:
  int64_t numel_;
  size_t type_ = 0;
  int64_t parameter_bytes_ = 0; // of one element
  int64_t state_bytes_ = 0;
  std::byte* parameter_ = nullptr;
  const std::byte* gradient_ = nullptr;
  std::array<std::byte*, 2> states_{};
};

} // namespace zero::optim

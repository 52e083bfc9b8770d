// Defines a tensor that says it is on a GPU, where there may be none: its
// memory is the CPU's, so nothing but its description may be used.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <array>
#include <utility>

namespace zero::test {

inline at::Tensor cuda_tensor(int64_t numel) {
  static std::array<float, 64> memory;
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      sizeof(float) * static_cast<size_t>(numel),
      c10::DataPtr(memory.data(), c10::Device(at::kCUDA, 0)),
      nullptr,
      false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(c10::DispatchKey::CUDA),
      caffe2::TypeMeta::Make<float>());
  impl->set_sizes_contiguous(numel);
  return at::Tensor(std::move(impl));
}

} // namespace zero::test

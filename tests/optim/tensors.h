// Defines tensors for the tests of optimizers.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Version.h>

#include <limits>
#include <string>
#include <vector>

namespace zero::optim {

inline const std::vector<at::ScalarType> kTypes{
    at::kFloat,
    at::kDouble,
    at::kHalf,
    at::kBFloat16};

// Of gradients and states, for parameters of a type.
inline at::ScalarType state_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// Random elements that begin `offset` elements into their storage, which goes
// on after them.
inline at::Tensor random_at(
    int64_t offset,
    int64_t numel,
    at::ScalarType dtype) {
  return at::randn({offset + numel + 37}, state_type(dtype))
      .to(dtype)
      .slice(0, offset, offset + numel);
}

inline at::Tensor zeros_at(
    int64_t offset,
    int64_t numel,
    at::ScalarType dtype) {
  return at::zeros({offset + numel + 37}, dtype)
      .slice(0, offset, offset + numel);
}

// Where torch fuses multiplications and additions, as this library always does.
inline bool torch_fuses() {
  const std::string capability = at::get_cpu_capability();
  return capability == "AVX2" || capability == "AVX512";
}

// All of a tensor's storage, so that what is around it is seen to stay.
inline at::Tensor storage_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  return tensor.as_strided(
      {bytes / static_cast<int64_t>(tensor.element_size())}, {1}, 0);
}

// A copy that lies in its storage just as the original does.
inline at::Tensor copy_of(const at::Tensor& tensor) {
  const at::Tensor all = storage_of(tensor).clone();
  return all.slice(
      0, tensor.storage_offset(), tensor.storage_offset() + tensor.numel());
}

// One kind of NaN only: which one comes out of two is the processor's choice.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = [](const at::Tensor& tensor) {
    const at::Tensor all = storage_of(tensor);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return all.masked_fill(all.isnan(), nan).contiguous().view(at::kByte);
  };
  return at::equal(bits(a), bits(b));
}

// Values at which arithmetic has its corners, scattered over a tensor.
inline void make_difficult(const at::Tensor& tensor) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> corners{
      0.0, -0.0, inf, -inf, std::numeric_limits<double>::quiet_NaN(), 1e-40};
  for (size_t i = 0; i < corners.size(); ++i) {
    const auto first = static_cast<int64_t>(3 + 5 * i);
    if (first < tensor.numel()) {
      tensor.slice(0, first, tensor.numel(), 31).fill_(corners[i]);
    }
  }
}

} // namespace zero::optim

#include "optim/norm.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "optim/kernels.h"
#include "optim/parallel.h"

namespace zero::optim {

namespace {

size_t checked_type_of(const at::Tensor& tensor) {
  const int type = type_index(tensor.scalar_type());
  ZERO_CHECK(type >= 0, "no kernels for ", tensor.scalar_type());
  ZERO_CHECK(tensor.device().is_cpu(), "on ", tensor.device());
  ZERO_CHECK(tensor.is_contiguous());
  return static_cast<size_t>(type);
}

template <class T>
double sum_of_powers(const void* array, int64_t numel, double p) {
  double sum = 0;
  for (int64_t i = 0; i < numel; ++i) {
    const auto x = static_cast<double>(static_cast<const T*>(array)[i]);
    sum += std::pow(std::abs(x), p);
  }
  return sum;
}

// Rare, so without vectors.
double fold_any_power(size_t type, const void* array, int64_t numel, double p) {
  static constexpr double (*kPerType[])(const void*, int64_t, double) = {
      sum_of_powers<float>,
      sum_of_powers<double>,
      sum_of_powers<c10::Half>,
      sum_of_powers<c10::BFloat16>};
  return kPerType[type](array, numel, p);
}

double fold(size_t type, const void* array, int64_t numel, double p) {
  if (p == 2) {
    return kernels().sum_squares[type](array, numel);
  }
  if (p == 1) {
    return kernels().sum_abs[type](array, numel);
  }
  if (std::isinf(p)) {
    return kernels().max_abs[type](array, numel);
  }
  return fold_any_power(type, array, numel, p);
}

} // namespace

double norm_power_sum(const at::Tensor& gradient, double p) {
  ZERO_CHECK(p > 0, "there is no norm of ", p);
  const size_t type = checked_type_of(gradient);
  const int64_t numel = gradient.numel();
  const auto bytes = static_cast<int64_t>(gradient.element_size());
  const auto* data = static_cast<const std::byte*>(gradient.const_data_ptr());
  // By block, however the threads divide them: so the order of additions is
  // fixed.
  std::vector<double> folded(
      static_cast<size_t>((numel + kBlock - 1) / kBlock));
  for_blocks(numel, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlock) {
      folded[static_cast<size_t>(at / kBlock)] =
          fold(type, data + at * bytes, std::min(kBlock, end - at), p);
    }
  });
  double total = 0;
  for (const double part : folded) {
    total = combine(total, part, p);
  }
  return total;
}

double combine(double a, double b, double p) {
  if (std::isinf(p)) {
    return std::isnan(a) || b <= a ? a : b;
  }
  return a + b;
}

double finish(double total, double p) {
  if (p == 1 || std::isinf(p)) {
    return total;
  }
  return p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
}

void scale(const at::Tensor& tensor, double factor) {
  const ScaleKernel kernel = kernels().scale[checked_type_of(tensor)];
  const auto bytes = static_cast<int64_t>(tensor.element_size());
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  for_blocks(tensor.numel(), [&](int64_t begin, int64_t end) {
    kernel(data + begin * bytes, end - begin, factor);
  });
}

} // namespace zero::optim

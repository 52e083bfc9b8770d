// The vectorised reductions against their scalar twins, bit by bit.
#include "comm/reduce_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace zero::comm {
namespace {

using at::Tensor;

const std::vector<at::ScalarType> kTypes{
    at::kFloat,
    at::kDouble,
    at::kBFloat16,
    at::kHalf,
    at::kChar,
    at::kInt,
    at::kLong,
    at::kByte};

const std::vector<ReduceOp> kOps{
    ReduceOp::sum,
    ReduceOp::mean,
    ReduceOp::max,
    ReduceOp::min};

// Any bits at all: NaNs, infinities, denormals and overflows included.
Tensor any_bits(int64_t numel, at::ScalarType dtype) {
  const auto bytes = numel * static_cast<int64_t>(c10::elementSize(dtype));
  return at::randint(0, 256, {bytes}, at::kByte).view(dtype);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return at::equal(a.view(at::kByte), b.view(at::kByte));
}

TEST(ReduceKernels, AgreeWithTheirScalarTwins) {
  at::manual_seed(1);
  for (const auto dtype : kTypes) {
    for (const auto op : kOps) {
      for (const int num_inputs : {1, 2, 3, 8}) {
        for (const int64_t numel : {0, 1, 7, 64, 1023, 1024, 1025, 5000}) {
          std::vector<Tensor> tensors;
          std::vector<const void*> inputs;
          for (int i = 0; i < num_inputs; ++i) {
            Tensor tensor = any_bits(numel, dtype);
            if (at::isFloatingType(dtype)) {
              // Which NaN comes out of two is the processor's choice; one kind
              // only, so that bits can be compared.
              tensor = tensor.nan_to_num(
                  std::numeric_limits<double>::quiet_NaN(), 1.0, -1.0);
            }
            tensors.push_back(tensor);
            inputs.push_back(tensor.const_data_ptr());
          }
          Tensor fast = at::zeros({numel}, dtype);
          Tensor slow = at::zeros({numel}, dtype);
          reduce(
              op,
              dtype,
              fast.mutable_data_ptr(),
              inputs.data(),
              num_inputs,
              numel);
          reduce_scalar(
              op,
              dtype,
              slow.mutable_data_ptr(),
              inputs.data(),
              num_inputs,
              numel);
          EXPECT_TRUE(same_bits(fast, slow))
              << dtype << " op " << static_cast<int>(op) << " of " << num_inputs
              << " x " << numel;
        }
      }
    }
  }
}

TEST(ReduceKernels, OutputMayBeAnInput) {
  Tensor a = at::arange(3000, at::kFloat);
  const Tensor b = at::ones({3000});
  const void* inputs[] = {b.const_data_ptr(), a.const_data_ptr()};
  reduce(ReduceOp::sum, at::kFloat, a.mutable_data_ptr(), inputs, 2, a.numel());
  EXPECT_TRUE(at::equal(a, at::arange(1, 3001, at::kFloat)));
}

TEST(ReduceKernels, HalvesAreSummedInFloat) {
  // In bfloat16, 256 + 1 is 256: only a wider sum gets beyond.
  const Tensor big = at::full({100}, 256.0, at::kBFloat16);
  const Tensor one = at::ones({100}, at::kBFloat16);
  const void* inputs[] = {
      big.const_data_ptr(), one.const_data_ptr(), one.const_data_ptr()};
  Tensor sum = at::zeros({100}, at::kBFloat16);
  reduce(ReduceOp::sum, at::kBFloat16, sum.mutable_data_ptr(), inputs, 3, 100);
  EXPECT_TRUE(at::equal(sum, at::full({100}, 258.0, at::kBFloat16)));
}

TEST(ReduceKernels, AMeanOfSmallIntegersDoesNotOverflow) {
  const Tensor big = at::full({10}, 120, at::kChar);
  const void* inputs[] = {big.const_data_ptr(), big.const_data_ptr()};
  Tensor mean = at::zeros({10}, at::kChar);
  reduce(ReduceOp::mean, at::kChar, mean.mutable_data_ptr(), inputs, 2, 10);
  EXPECT_TRUE(at::equal(mean, big));
}

TEST(ReduceKernels, OtherTypesAreNotSupported) {
  EXPECT_TRUE(is_supported(at::kHalf));
  EXPECT_FALSE(is_supported(at::kComplexFloat));
  EXPECT_FALSE(is_supported(at::kBool));
  EXPECT_FALSE(is_supported(at::kShort));
}

} // namespace
} // namespace zero::comm

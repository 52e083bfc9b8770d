// What a slice must be.
#include "optim/slice_arrays.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <zero/error.h>

#include <string>

#include "optim/kernels.h"

namespace zero::optim {
namespace {

Slice make_slice(at::ScalarType dtype, at::ScalarType state_dtype) {
  Slice slice;
  slice.parameter = at::zeros({10}, dtype);
  slice.gradient = at::zeros({10}, state_dtype);
  slice.states = {at::zeros({10}, state_dtype)};
  return slice;
}

std::string complaint_of(const Slice& slice) {
  try {
    const SliceArrays arrays(slice, 1);
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("Fix: "), std::string::npos) << message;
    return message;
  }
  return "";
}

TEST(SliceArrays, PointAtTheElementAskedFor) {
  const Slice slice = make_slice(at::kBFloat16, at::kFloat);
  const SliceArrays arrays(slice, 1);
  EXPECT_EQ(arrays.numel(), 10);
  EXPECT_EQ(arrays.type(), type_index(at::kBFloat16));
  EXPECT_EQ(arrays.parameter(3), slice.parameter.slice(0, 3).data_ptr());
  EXPECT_EQ(arrays.gradient(3), slice.gradient.slice(0, 3).data_ptr());
  EXPECT_EQ(arrays.state(0, 3), slice.states[0].slice(0, 3).data_ptr());
}

TEST(SliceArrays, TakeFloatGradientsForHalvesAndElseTheParametersType) {
  EXPECT_EQ(complaint_of(make_slice(at::kFloat, at::kFloat)), "");
  EXPECT_EQ(complaint_of(make_slice(at::kDouble, at::kDouble)), "");
  EXPECT_EQ(complaint_of(make_slice(at::kHalf, at::kFloat)), "");
  EXPECT_NE(complaint_of(make_slice(at::kHalf, at::kHalf)), "");
  EXPECT_NE(complaint_of(make_slice(at::kDouble, at::kFloat)), "");
}

TEST(SliceArrays, SayWhatDoesNotFit) {
  Slice slice = make_slice(at::kFloat, at::kFloat);
  slice.parameter = at::zeros({9});
  EXPECT_NE(complaint_of(slice).find("parameter"), std::string::npos);
  slice = make_slice(at::kFloat, at::kFloat);
  slice.states[0] = at::zeros({20}).slice(0, 0, 20, 2);
  EXPECT_NE(complaint_of(slice).find("not contiguous"), std::string::npos);
  slice.states.clear();
  EXPECT_NE(complaint_of(slice).find("expected 1, got 0"), std::string::npos);
  slice.states.resize(1);
  EXPECT_NE(complaint_of(slice).find("undefined"), std::string::npos);
  EXPECT_NE(complaint_of({}), "");
}

TEST(SliceArrays, ParametersOfIntegersHaveNoOptimizer) {
  const std::string complaint = complaint_of(make_slice(at::kLong, at::kFloat));
  EXPECT_NE(complaint.find("Long"), std::string::npos) << complaint;
}

} // namespace
} // namespace zero::optim

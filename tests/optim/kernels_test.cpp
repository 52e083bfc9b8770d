// Every version of the kernels that this processor can run against their scalar
// twins, bit by bit.
#include "optim/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "optim/tensors.h"

namespace zero::optim {
namespace {

using at::Tensor;

const std::vector<int64_t> kSizes{0, 1, 3, 7, 16, 17, 63, 64, 65, 1000, 4099};
const std::vector<int64_t> kOffsets{0, 1, 5, 16};

struct Operands {
  Tensor parameter, gradient, first, second;

  Operands(int64_t offset, int64_t numel, at::ScalarType dtype)
      : parameter(random_at(offset, numel, dtype)),
        gradient(random_at(offset + 1, numel, state_type(dtype))),
        first(random_at(offset, numel, state_type(dtype))),
        second(random_at(offset, numel, state_type(dtype))) {
    second.square_();
  }
  Operands(const Operands& other)
      : parameter(copy_of(other.parameter)),
        gradient(copy_of(other.gradient)),
        first(copy_of(other.first)),
        second(copy_of(other.second)) {}

  void update(const Kernels& with, const AdamFactors& factors) const {
    with.adam[static_cast<size_t>(type_index(parameter.scalar_type()))](
        parameter.mutable_data_ptr(),
        gradient.const_data_ptr(),
        first.mutable_data_ptr(),
        second.mutable_data_ptr(),
        parameter.numel(),
        factors);
  }
  void update(const Kernels& with, const SgdFactors& factors) const {
    with.sgd[static_cast<size_t>(type_index(parameter.scalar_type()))](
        parameter.mutable_data_ptr(),
        gradient.const_data_ptr(),
        factors.momentum != 0 ? first.mutable_data_ptr() : nullptr,
        parameter.numel(),
        factors);
  }
};

template <class Body>
void for_all(const Body& body) {
  for (const Kernels* version : supported_kernels()) {
    for (const auto dtype : kTypes) {
      for (const int64_t numel : kSizes) {
        for (const int64_t offset : kOffsets) {
          SCOPED_TRACE(
              std::string(version->name) + ", " + c10::toString(dtype) + ", " +
              std::to_string(numel) + " from " + std::to_string(offset));
          body(*version, offset, numel, dtype);
        }
      }
    }
  }
}

// That an update by `version` is one by the twin, states and all.
template <class Factors>
void expect_same_update(
    const Kernels& version,
    const Operands& operands,
    const Factors& factors) {
  const Operands& ours = operands;
  const Operands expected(operands);
  ours.update(version, factors);
  expected.update(scalar_kernels(), factors);
  EXPECT_TRUE(same_bits(ours.parameter, expected.parameter));
  EXPECT_TRUE(same_bits(ours.gradient, expected.gradient));
  EXPECT_TRUE(same_bits(ours.first, expected.first));
  EXPECT_TRUE(same_bits(ours.second, expected.second));
}

const std::vector<AdamFactors> kAdamFactors{
    {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step_size = 1e-3},
    {.beta1 = 0.9,
     .beta2 = 0.999,
     .eps = 1e-8,
     .step_size = 0.01,
     .root_correction = 0.0316,
     .decay = 0.9999},
    {.beta1 = 0.5,
     .beta2 = 0.99,
     .eps = 0,
     .step_size = 0.3,
     .root_correction = 0.7,
     .l2 = 0.1}};

TEST(Kernels, AdamIsItsScalarTwin) {
  at::manual_seed(1);
  for_all([](const Kernels& version, int64_t offset, int64_t numel, auto type) {
    for (const auto& factors : kAdamFactors) {
      expect_same_update(version, Operands(offset, numel, type), factors);
    }
  });
}

TEST(Kernels, AdamIsItsScalarTwinForDifficultNumbers) {
  at::manual_seed(2);
  for_all([](const Kernels& version, int64_t offset, int64_t numel, auto type) {
    for (const auto& factors : kAdamFactors) {
      const Operands operands(offset, numel, type);
      make_difficult(operands.parameter);
      expect_same_update(version, operands, factors);
      make_difficult(operands.gradient);
      expect_same_update(version, operands, factors);
    }
  });
}

TEST(Kernels, SgdIsItsScalarTwin) {
  at::manual_seed(3);
  const std::vector<SgdFactors> cases{
      {.lr = 0.1},
      {.lr = 0.1, .l2 = 0.01},
      {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .first = true},
      {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .l2 = 0.01},
      {.lr = 0.1, .momentum = 0.9, .l2 = 0.01, .nesterov = true}};
  for_all(
      [&](const Kernels& version, int64_t offset, int64_t numel, auto type) {
        for (const auto& factors : cases) {
          const Operands operands(offset, numel, type);
          expect_same_update(version, operands, factors);
          make_difficult(operands.gradient);
          expect_same_update(version, operands, factors);
        }
      });
}

TEST(Kernels, ScalingIsItsScalarTwin) {
  at::manual_seed(4);
  for_all([](const Kernels& version, int64_t offset, int64_t numel, auto type) {
    const auto index = static_cast<size_t>(type_index(type));
    const Tensor ours = random_at(offset, numel, type);
    make_difficult(ours);
    const Tensor expected = copy_of(ours);
    version.scale[index](ours.mutable_data_ptr(), numel, 0.3);
    scalar_kernels().scale[index](expected.mutable_data_ptr(), numel, 0.3);
    EXPECT_TRUE(same_bits(ours, expected));
  });
}

TEST(Kernels, SumsAndMaximaAreTheirScalarTwins) {
  at::manual_seed(5);
  for_all([](const Kernels& version, int64_t offset, int64_t numel, auto type) {
    const auto index = static_cast<size_t>(type_index(type));
    const Tensor tensor = random_at(offset, numel, type);
    const void* data = tensor.const_data_ptr();
    const Kernels& twin = scalar_kernels();
    EXPECT_EQ(
        version.sum_abs[index](data, numel), twin.sum_abs[index](data, numel));
    EXPECT_EQ(
        version.sum_squares[index](data, numel),
        twin.sum_squares[index](data, numel));
    EXPECT_EQ(
        version.max_abs[index](data, numel), twin.max_abs[index](data, numel));
  });
}

TEST(Kernels, AnyBfloat16AndHalfIsReadAndWrittenBack) {
  for (const Kernels* version : supported_kernels()) {
    for (const auto dtype : {at::kHalf, at::kBFloat16}) {
      const Tensor all =
          at::arange(65536, at::kInt).to(at::kUInt16).view(dtype);
      const Tensor ours = all.clone();
      version->scale[static_cast<size_t>(type_index(dtype))](
          ours.mutable_data_ptr(), ours.numel(), 1.0);
      EXPECT_TRUE(same_bits(ours, all)) << version->name << dtype;
    }
  }
}

TEST(Kernels, RoundingToHalvesIsThatOfTorch) {
  at::manual_seed(6);
  for (const Kernels* version : supported_kernels()) {
    for (const auto dtype : {at::kHalf, at::kBFloat16}) {
      // From zero, by SGD with a rate of -1: the gradient itself, rounded.
      const Tensor gradient = at::randint(
                                  std::numeric_limits<int32_t>::min(),
                                  std::numeric_limits<int32_t>::max(),
                                  {100003},
                                  at::kInt)
                                  .view(at::kFloat);
      const Tensor parameter = at::zeros({100003}, dtype);
      version->sgd[static_cast<size_t>(type_index(dtype))](
          parameter.mutable_data_ptr(),
          gradient.const_data_ptr(),
          nullptr,
          parameter.numel(),
          {.lr = -1});
      EXPECT_TRUE(same_bits(parameter, (gradient + 0).to(dtype)))
          << version->name << dtype;
    }
  }
}

TEST(Kernels, TheFastestComesFirstAndThePortableLast) {
  const auto versions = supported_kernels();
  EXPECT_EQ(&kernels(), versions.front());
  EXPECT_STREQ(versions.back()->name, "portable");
}

TEST(Kernels, OtherTypesHaveNone) {
  EXPECT_EQ(type_index(at::kInt), -1);
  EXPECT_EQ(type_index(at::kComplexFloat), -1);
}

} // namespace
} // namespace zero::optim

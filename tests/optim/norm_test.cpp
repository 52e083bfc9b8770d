// Norms and scaling against torch's.
#include "optim/norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "optim/parallel.h"
#include "optim/tensors.h"

namespace zero::optim {
namespace {

using at::Tensor;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> kPowers{1, 2, kInf, 3, 0.5};

TEST(Norm, IsThatOfTorch) {
  at::manual_seed(1);
  for (const auto dtype : kTypes) {
    for (const int64_t numel : {1, 3, 7, 17, 1000, 100003}) {
      for (const double p : kPowers) {
        const Tensor tensor = random_at(1, numel, dtype);
        const double expected =
            at::linalg_vector_norm(tensor.to(at::kDouble), p).item<double>();
        const double norm = finish(norm_power_sum(tensor, p), p);
        EXPECT_NEAR(norm / expected, 1, 1e-12)
            << dtype << " x " << numel << ", p = " << p;
      }
    }
  }
}

TEST(Norm, IsThatOfTorchForAMillionElements) {
  at::manual_seed(2);
  for (const double p : {1.0, 2.0, kInf}) {
    const Tensor tensor = random_at(1, 1000003, at::kFloat);
    const double expected =
        at::linalg_vector_norm(tensor.to(at::kDouble), p).item<double>();
    EXPECT_NEAR(finish(norm_power_sum(tensor, p), p) / expected, 1, 1e-12);
  }
}

TEST(Norm, OfNothingIsZero) {
  for (const double p : kPowers) {
    EXPECT_EQ(norm_power_sum(at::empty({0}), p), 0);
    EXPECT_EQ(finish(0, p), 0);
  }
}

TEST(Norm, OfPartsCombinesToThatOfTheWhole) {
  at::manual_seed(3);
  const Tensor tensor = random_at(0, 10007, at::kDouble);
  for (const double p : kPowers) {
    double total = 0;
    int64_t begin = 0;
    for (const int64_t end : {1, 17, 5000, 10007}) {
      total = combine(total, norm_power_sum(tensor.slice(0, begin, end), p), p);
      begin = end;
    }
    EXPECT_NEAR(total / norm_power_sum(tensor, p), 1, 1e-12) << p;
  }
}

TEST(Norm, HasTheSameBitsForAnyNumberOfThreads) {
  at::manual_seed(4);
  const int before = at::get_num_threads();
  const Tensor tensor = random_at(1, 1000003, at::kFloat);
  for (const double p : kPowers) {
    at::set_num_threads(1);
    const double expected = norm_power_sum(tensor, p);
    for (const int num_threads : {2, 3, 8}) {
      at::set_num_threads(num_threads);
      EXPECT_EQ(norm_power_sum(tensor, p), expected) << p;
    }
  }
  at::set_num_threads(before);
}

TEST(Norm, NanAndInfinityComeOutWhereverTheyAre) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  for (const auto dtype : kTypes) {
    for (const int64_t at : {0L, 5L, 16L, kBlock, 3 * kBlock + 2}) {
      for (const double p : kPowers) {
        const Tensor tensor = at::ones({3 * kBlock + 3}, dtype);
        tensor[at] = -kInf;
        EXPECT_EQ(finish(norm_power_sum(tensor, p), p), kInf) << at;
        tensor[at] = kNan;
        EXPECT_TRUE(std::isnan(finish(norm_power_sum(tensor, p), p))) << at;
        tensor[1] = kInf; // which does not hide the other
        EXPECT_TRUE(std::isnan(finish(norm_power_sum(tensor, p), p))) << at;
      }
    }
  }
  at::set_num_threads(before);
  for (const double p : kPowers) {
    EXPECT_TRUE(std::isnan(combine(kNan, 1, p)));
    EXPECT_TRUE(std::isnan(combine(1, kNan, p)));
    EXPECT_EQ(combine(kInf, 1, p), kInf);
    EXPECT_EQ(combine(1, kInf, p), kInf);
  }
}

TEST(Norm, OfLargeFloatsDoesNotOverflow) {
  const Tensor tensor = at::full({1000}, 1e30);
  EXPECT_NEAR(finish(norm_power_sum(tensor, 2), 2) / 3.16227766e31, 1, 1e-6);
}

TEST(Norm, OfManySmallNumbersLosesNone) {
  // In float, 16777216 + 1 is 16777216.
  const Tensor tensor = at::ones({20'000'000});
  EXPECT_EQ(norm_power_sum(tensor, 1), 20'000'000);
  EXPECT_EQ(norm_power_sum(tensor, 2), 20'000'000);
}

TEST(Scale, IsThatOfTorch) {
  at::manual_seed(5);
  for (const auto dtype : kTypes) {
    for (const int64_t numel : {0, 1, 3, 7, 17, 1000, 100003}) {
      for (const int64_t offset : {0, 1, 5}) {
        const Tensor ours = random_at(offset, numel, dtype);
        const Tensor expected = copy_of(ours);
        scale(ours, 0.3);
        expected.copy_(expected.to(state_type(dtype)).mul_(0.3));
        EXPECT_TRUE(same_bits(ours, expected)) << dtype << " x " << numel;
      }
    }
  }
}

TEST(Scale, NanAndInfinityStay) {
  const Tensor tensor = at::ones({40});
  tensor[3] = kNan;
  tensor[39] = kInf;
  scale(tensor, 0.5);
  EXPECT_TRUE(std::isnan(tensor[3].item<double>()));
  EXPECT_EQ(tensor[39].item<double>(), kInf);
  EXPECT_EQ(tensor[0].item<double>(), 0.5);
}

} // namespace
} // namespace zero::optim

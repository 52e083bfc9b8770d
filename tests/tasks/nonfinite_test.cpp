#include "tasks/nonfinite.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <zero/local.h>

namespace zero::tasks {
namespace {

TEST(Nonfinite, TheRanksWhoseGradientsAreNotFiniteAreFound) {
  run_threads(3, [](const World& world) {
    at::Tensor weight = at::ones({2}).requires_grad_();
    const at::Tensor unused = at::ones({2}).requires_grad_();
    const at::Tensor frozen = at::ones({2});
    int left = 2;
    const auto next_loss = [&]() -> at::Tensor {
      if (left-- == 0) {
        return {};
      }
      // The root of nothing is finite, its gradient is not.
      const double factor = world.rank() == 1 && left == 0 ? 0 : 1;
      return (weight * factor).sum().sqrt();
    };
    EXPECT_EQ(
        ranks_with_nonfinite_gradients(
            world, {weight, unused, frozen}, next_loss),
        std::vector<int>{1});
    EXPECT_FALSE(weight.grad().defined()); // nothing was accumulated
  });
}

} // namespace
} // namespace zero::tasks

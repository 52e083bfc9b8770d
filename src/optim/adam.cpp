#include "optim/adam.h"

#include <cmath>

#include "optim/kernels.h"
#include "optim/parallel.h"
#include "optim/slice_arrays.h"

namespace zero::optim {

namespace {

class Adam final : public Optimizer {
 public:
  explicit Adam(const OptimizerConfig& config) : config_(config) {}

  int num_states() const override {
    return 2;
  }

  void update(const Slice& slice) override {
    const SliceArrays arrays(slice, num_states());
    const AdamFactors factors = factors_of(slice);
    const AdamKernel kernel = kernels().adam[arrays.type()];
    for_blocks(arrays.numel(), [&](int64_t begin, int64_t end) {
      kernel(
          arrays.parameter(begin),
          arrays.gradient(begin),
          arrays.state(0, begin),
          arrays.state(1, begin),
          end - begin,
          factors);
    });
  }

 private:
  AdamFactors factors_of(const Slice& slice) const {
    AdamFactors factors{
        .beta1 = slice.momentum >= 0 ? slice.momentum : config_.betas[0],
        .beta2 = config_.betas[1],
        .eps = config_.eps,
        .step_size = slice.lr};
    if (config_.bias_correction) {
      const auto step = static_cast<double>(slice.step);
      factors.step_size /= 1 - std::pow(factors.beta1, step);
      factors.root_correction = std::sqrt(1 - std::pow(factors.beta2, step));
    }
    if (config_.adam_w_mode) {
      factors.decay = 1 - slice.lr * slice.weight_decay;
    } else {
      factors.l2 = slice.weight_decay;
    }
    return factors;
  }

  OptimizerConfig config_;
};

} // namespace

std::shared_ptr<Optimizer> make_adam(const OptimizerConfig& config) {
  return std::make_shared<Adam>(config);
}

} // namespace zero::optim

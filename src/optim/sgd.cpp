#include "optim/sgd.h"

#include "optim/kernels.h"
#include "optim/parallel.h"
#include "optim/slice_arrays.h"

namespace zero::optim {

namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerConfig& config) : config_(config) {}

  int num_states() const override {
    return config_.momentum != 0 ? 1 : 0;
  }

  void update(const Slice& slice) override {
    const SliceArrays arrays(slice, num_states());
    const bool has_buffer = num_states() == 1;
    const SgdFactors factors{
        .lr = slice.lr,
        .momentum = slice.momentum >= 0 ? slice.momentum : config_.momentum,
        .dampening = config_.dampening,
        .l2 = slice.weight_decay,
        .nesterov = config_.nesterov,
        .first = slice.step == 1};
    const SgdKernel kernel = kernels().sgd[arrays.type()];
    for_blocks(arrays.numel(), [&](int64_t begin, int64_t end) {
      kernel(
          arrays.parameter(begin),
          arrays.gradient(begin),
          has_buffer ? arrays.state(0, begin) : nullptr,
          end - begin,
          factors);
    });
  }

 private:
  OptimizerConfig config_;
};

} // namespace

std::shared_ptr<Optimizer> make_sgd(const OptimizerConfig& config) {
  return std::make_shared<Sgd>(config);
}

} // namespace zero::optim

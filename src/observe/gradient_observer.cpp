#include "observe/gradient_observer.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "base/error.h"

namespace zero::observe {

namespace {

class Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> callback)
      : callback_(std::move(callback)) {}
  void operator()(const at::Tensor& /*parameter*/) override {
    callback_();
  }

 private:
  std::function<void()> callback_;
};

} // namespace

bool GradientObserver::is_watched(const at::Tensor& parameter) {
  // A tensor that was never to have a gradient has nothing to hook on.
  return torch::autograd::impl::get_autograd_meta(parameter) != nullptr &&
      torch::autograd::impl::post_acc_grad_hooks(parameter) != nullptr;
}

void GradientObserver::watch(
    const at::Tensor& parameter,
    std::function<void()> callback) {
  ZERO_CHECK(!is_watched(parameter));
  torch::autograd::impl::set_post_acc_grad_hooks(
      parameter, std::make_unique<Hook>(std::move(callback)));
  watched_.push_back(parameter);
}

GradientObserver::~GradientObserver() {
  for (const auto& parameter : watched_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

} // namespace zero::observe

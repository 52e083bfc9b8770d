// Defines GradientObserver: tells when autograd has completed the gradient of a
// parameter. One of the two places that hook libtorch.
//
//   GradientObserver observer;
//   observer.watch(parameter, [&] { reducer.gradient_ready(id); });
//
// The callback runs in the thread that runs backward, once for each backward in
// which the parameter gets a gradient. What it throws ends that backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace zero::observe {

class GradientObserver {
 public:
  GradientObserver() = default;
  ~GradientObserver(); // lets go of all
  GradientObserver(const GradientObserver&) = delete;
  GradientObserver& operator=(const GradientObserver&) = delete;

  // Whether somebody, such as another engine, watches the parameter already.
  static bool is_watched(const at::Tensor& parameter);

  // Requires: nobody does.
  void watch(const at::Tensor& parameter, std::function<void()> callback);

 private:
  std::vector<at::Tensor> watched_;
};

} // namespace zero::observe

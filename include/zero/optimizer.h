// Defines Optimizer: what turns gradients into new parameters, element by
// element, so that every rank can update its own shard. SGD, Adam and AdamW are
// built in, by the configuration; a program brings its own like this:
//
//   class SignSgd : public zero::Optimizer {
//    public:
//     int num_states() const override { return 0; }
//     void update(const zero::Slice& slice) override {
//       slice.parameter.sub_(slice.gradient.sign(), slice.lr);
//     }
//   };
//   zero::Engine engine(world, module, config, std::make_shared<SignSgd>());
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace zero {

// Elements that are updated together: a piece of one parameter, or of several
// that have the same settings and the same history. All tensors have one
// dimension, the same number of elements, and are contiguous.
struct Slice {
  at::Tensor parameter; // to be changed in place
  at::Tensor gradient; // float32 for half precision, else the parameter's type
  std::vector<at::Tensor> states; // of the gradient's type, zeros at first
  int64_t step = 1; // how many updates these elements have had, this one too
  double lr = 0;
  double weight_decay = 0;
  // The first coefficient of momentum where a schedule sets it, else negative.
  double momentum = -1;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // How many tensors of state each parameter has.
  virtual int num_states() const = 0;

  // Called for every slice once per update, in any order. It must treat each
  // element for itself: where a slice begins depends on the number of ranks.
  virtual void update(const Slice& slice) = 0;
};

} // namespace zero

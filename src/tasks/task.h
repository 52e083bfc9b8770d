// Defines Task: a model with its data, as the trainer sees them.
//
//   auto task = make_task(config);
//   Batch batch = task->training_batch(sampler.next(world, 12), position);
//   engine.backward(task->loss(batch));
#pragma once

#include <torch/nn/module.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tasks/train_config.h"

namespace zero::tasks {

struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

constexpr size_t kNumSums = 4;
using Sums = std::array<double, kNumSums>;

// Results by name, in the order in which they are shown.
using Results = std::vector<std::pair<std::string, double>>;

class Task {
 public:
  virtual ~Task() = default;

  virtual std::shared_ptr<torch::nn::Module> module() const = 0;

  // What the user should know about how the model came to be; lines.
  virtual std::vector<std::string> notes() const {
    return {};
  }

  // One line each.
  virtual std::string describe_model() const = 0;
  virtual std::string describe_data() const = 0;

  virtual int64_t num_training_samples() const = 0;
  virtual int64_t num_evaluation_samples() const = 0;
  // Tokens in a sample; 1 of images.
  virtual int64_t sample_length() const = 0;
  virtual const char* sample_name() const = 0; // of many: "sequences"

  // Safe to call in another thread. `position` is where the first of them
  // stands in the order of training.
  virtual Batch training_batch(
      const std::vector<int64_t>& samples,
      int64_t position) const = 0;
  virtual Batch evaluation_batch(int64_t begin, int64_t end) const = 0;

  virtual at::Tensor loss(const Batch& batch) = 0;

  // Sums over the batch; those of all batches and ranks added up give the
  // results.
  virtual Sums measure(const Batch& batch) = 0;
  virtual Results results(const Sums& sums) const = 0;

  // A passage that the model goes on with, as long as `goes_on` says so; empty
  // if there is none.
  virtual std::string sample(const std::function<bool()>& /*goes_on*/) {
    return {};
  }

  // Throws: ConfigError if so many samples cannot be trained on at a time.
  virtual void check_batch(int64_t /*num_samples*/) const {}

  // What belongs beside model.safetensors for others to use it.
  virtual void write_model_files(const std::string& folder) const = 0;
};

// The place of number `i` of `count` that are spread evenly over `places`.
inline int64_t spread(int64_t i, int64_t count, int64_t places) {
  return count > 1
      ? static_cast<int64_t>(
            static_cast<double>(i) * static_cast<double>(places - 1) /
            static_cast<double>(count - 1))
      : 0;
}

// Reads the data and builds the model, with rank 0's weights or those that
// "load" names. Throws: ConfigError, IoError, CorruptionError.
std::unique_ptr<Task> make_task(const TrainConfig& config);
std::unique_ptr<Task> make_text_task(const TrainConfig& config);
std::unique_ptr<Task> make_image_task(const TrainConfig& config);

} // namespace zero::tasks

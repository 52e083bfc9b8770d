// Defines the combinations of stage and sharing that tests run through, and the
// configurations they begin with.
#pragma once

#include <gtest/gtest.h>
#include <zero/zero.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace zero::test {

struct Setting {
  int stage = 0;
  bool shared = true;
};

inline std::ostream& operator<<(std::ostream& stream, const Setting& setting) {
  return stream << "stage " << setting.stage
                << (setting.shared ? ", shared" : ", not shared");
}

inline const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> settings{
      {0, true},
      {1, true},
      {1, false},
      {2, true},
      {2, false},
      {3, true},
      {3, false}};
  return settings;
}

// Gtest traces are a thread's own, so the ranks set theirs.
inline void at_every_stage(
    int num_ranks,
    const std::function<void(World, const Setting&)>& body) {
  for (const auto& setting : all_settings()) {
    run_threads(num_ranks, [&](World world) {
      SCOPED_TRACE(c10::str(setting));
      body(world, setting);
    });
  }
}

// SGD without clipping: an update shows the gradient as it is.
inline Config plain_config(const Setting& setting) {
  Config config;
  config.zero_optimization.stage = setting.stage;
  config.zero_optimization.reduce_bucket_size = 64; // many buckets
  config.libzero.shared_memory = setting.shared;
  config.optimizer.type = OptimizerConfig::Type::sgd;
  config.optimizer.lr = 0.5;
  config.gradient_clipping = 0;
  return config;
}

inline Config adam_config(const Setting& setting) {
  Config config = plain_config(setting);
  config.optimizer.type = OptimizerConfig::Type::adam;
  config.optimizer.lr = 1e-2;
  return config;
}

inline Config accumulating(Config config, int64_t steps) {
  config.train_micro_batch_size_per_gpu = 1;
  config.gradient_accumulation_steps = steps;
  return config;
}

} // namespace zero::test

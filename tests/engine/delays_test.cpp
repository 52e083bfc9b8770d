// Ranks that are held up before gathers, reductions and updates: nothing
// changes but time.
#include <ATen/record_function.h>
#include <zero/zero.h>

#include <atomic>
#include <random>
#include <thread>

#include "comm/ranks.h"
#include "engine/models.h"
#include "engine/settings.h"
#include "optim/adam.h"

namespace zero::test {
namespace {

constexpr int kDelayedRanks = 3;
constexpr int kDelayedSteps = 3;

// How many delays of 100 ms are left, for all threads together.
std::atomic<int> delays_left = 0;

void maybe_delay(double probability) {
  thread_local std::mt19937 random(static_cast<unsigned>(
      std::hash<std::thread::id>()(std::this_thread::get_id())));
  if (std::uniform_real_distribution<>()(random) < probability &&
      delays_left.fetch_sub(1) > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// Before an operator runs; an observer that is registered later, as the
// engine's is, gathers parameters only after that.
std::unique_ptr<at::ObserverContext> before_operator(
    const at::RecordFunction& /*call*/) {
  maybe_delay(0.01);
  return nullptr;
}

class SlowAdam : public Optimizer {
 public:
  explicit SlowAdam(const OptimizerConfig& config)
      : adam_(optim::make_adam(config)) {}
  int num_states() const override {
    return adam_->num_states();
  }
  void update(const Slice& slice) override {
    maybe_delay(0.2);
    adam_->update(slice);
  }

 private:
  std::shared_ptr<Optimizer> adam_;
};

// Losses and norms of rank 0, and its parameters at the end.
std::pair<std::vector<double>, std::vector<at::Tensor>> train(
    const Setting& setting,
    int num_delays) {
  delays_left = num_delays;
  const auto callback =
      at::addGlobalCallback(at::RecordFunctionCallback(before_operator)
                                .scopes({at::RecordScope::FUNCTION}));
  std::vector<double> numbers;
  std::vector<at::Tensor> parameters;
  run_threads(kDelayedRanks, [&](World world) {
    Config config = plain_config(setting);
    config.optimizer.type = OptimizerConfig::Type::adam;
    config.optimizer.lr = 0.01;
    config.gradient_clipping = 0.5;
    const Model model = make_model("moe");
    for (const auto& parameter : model.module->parameters()) {
      parameter.register_hook([](const at::Tensor& /*grad*/) {
        maybe_delay(0.05); // before its gradient can be reduced
      });
    }
    Engine engine(
        world,
        model.module,
        config,
        std::make_shared<SlowAdam>(config.optimizer));
    for (uint64_t step = 0; step < kDelayedSteps; ++step) {
      const auto loss =
          model.loss(10 * step + static_cast<uint64_t>(world.rank()));
      engine.backward(loss);
      const auto result = engine.step();
      if (world.rank() == 0) {
        numbers.push_back(loss.item<double>());
        numbers.push_back(result.grad_norm);
      }
    }
    const auto guard = engine.gather(*model.module);
    for (const auto& parameter : model.module->parameters()) {
      if (world.rank() == 0) {
        parameters.push_back(parameter.detach().clone());
      }
    }
  });
  at::removeCallback(callback);
  return {numbers, parameters};
}

TEST(Delays, ChangeNothingButTime) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const auto [numbers, parameters] = train(setting, 0);
    const auto [delayed_numbers, delayed_parameters] = train(setting, 20);
    EXPECT_LE(delays_left, 0) << "too few places were delayed";
    EXPECT_EQ(delayed_numbers, numbers);
    ASSERT_EQ(delayed_parameters.size(), parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(torch::equal(delayed_parameters[i], parameters[i]));
    }
  }
}

} // namespace
} // namespace zero::test

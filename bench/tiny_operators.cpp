// What an engine costs where operators are tiny: a step of 2,000 of them, by
// plain libtorch and by engines of one rank, in turn. Stages that do without
// the operator observer should cost nothing; with it, a call has its price.
//
//   build/bin/tiny_operators [rounds]
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <zero/zero.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace zero::bench {
namespace {

constexpr int kOperators = 2000;
constexpr int kLayers = 20; // each with a parameter
constexpr int kSteps = 20; // timed together, after a few others

struct ChainImpl : torch::nn::Module {
  ChainImpl() {
    for (int i = 0; i < kLayers; ++i) {
      scales.push_back(
          register_parameter("scale" + std::to_string(i), torch::ones({16})));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < kOperators - 1; ++i) {
      x = i % (kOperators / kLayers) == 0
          ? x * scales[static_cast<size_t>(i / (kOperators / kLayers))]
          : x + 1e-3;
    }
    return x.sum();
  }
  std::vector<at::Tensor> scales;
};
TORCH_MODULE(Chain);

double seconds_per_step(const std::function<void()>& step) {
  for (int i = 0; i < 3; ++i) {
    step();
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) {
    step();
  }
  const std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - start;
  return spent.count() / kSteps;
}

double plain_step() {
  Chain chain;
  torch::optim::SGD optimizer(
      chain->parameters(), torch::optim::SGDOptions(1e-3));
  return seconds_per_step([&] {
    optimizer.zero_grad();
    chain(torch::ones({16})).backward();
    optimizer.step();
  });
}

double engine_step(const World& world, int stage, bool shared_memory) {
  Chain chain;
  Config config;
  config.zero_optimization.stage = stage;
  config.libzero.shared_memory = shared_memory;
  config.optimizer.type = OptimizerConfig::Type::sgd;
  config.gradient_clipping = 0;
  Engine engine(world, chain.ptr(), config);
  return seconds_per_step([&] {
    engine.backward(chain(torch::ones({16})));
    engine.step();
  });
}

std::atomic<int64_t> num_calls = 0;

// How many calls of operators a step has, those by other operators too.
int64_t calls_of_a_step() {
  Chain chain;
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback(
                                [](const at::RecordFunction&)
                                    -> std::unique_ptr<at::ObserverContext> {
                                  ++num_calls;
                                  return nullptr;
                                })
                                .scopes({at::RecordScope::FUNCTION}));
  chain(torch::ones({16})).backward();
  at::removeCallback(handle);
  return num_calls;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int rounds) {
  at::set_num_threads(1);
  const World world = init();
  const int64_t calls = calls_of_a_step();
  struct Variant {
    const char* name;
    std::function<double()> measure;
    std::vector<double> over_plain = {};
    std::vector<double> extra_per_call = {};
  };
  std::vector<Variant> variants{
      {"stage 0", [&] { return engine_step(world, 0, true); }},
      {"stage 1", [&] { return engine_step(world, 1, true); }},
      {"stage 2", [&] { return engine_step(world, 2, true); }},
      {"stage 3", [&] { return engine_step(world, 3, true); }},
      {"stage 3, not shared", [&] { return engine_step(world, 3, false); }}};
  std::vector<double> plain;
  for (int round = 0; round < rounds; ++round) {
    for (auto& variant : variants) {
      plain.push_back(plain_step());
      const double seconds = variant.measure();
      variant.over_plain.push_back(seconds / plain.back());
      variant.extra_per_call.push_back(
          (seconds - plain.back()) / static_cast<double>(calls));
    }
  }
  std::printf(
      "%d operators in forward, %lld calls in a step; plain libtorch: %.2f ms\n",
      kOperators,
      static_cast<long long>(calls),
      1e3 * median(plain));
  for (const auto& variant : variants) {
    std::printf(
        "%-20s %.3f of plain libtorch's time, %+.3f us per call\n",
        variant.name,
        median(variant.over_plain),
        1e6 * median(variant.extra_per_call));
  }
  return 0;
}

} // namespace
} // namespace zero::bench

int main(int argc, char** argv) {
  return zero::bench::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 15);
}

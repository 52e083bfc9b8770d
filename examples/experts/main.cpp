// Ranks that differ: a mixture of experts with one expert for each domain. Each
// rank has data of two domains, so it runs other experts than its neighbour,
// and gets no gradients for the rest. The ranks also have different numbers of
// batches: who is done calls join() and goes on taking part in the updates of
// the others. Nothing here would work with collectives in forward or backward.
//
//   zero run -n 2 build/bin/experts
//
// Prints:
//
//   [0] experts 0 and 1: loss 1.69 -> 0.07 in 80 batches
//   [1] experts 1 and 2: loss 2.11 -> 0.03 in 120 batches
//   [0] after 120 updates all ranks have joined
//   [1] after 120 updates all ranks have joined
//
// Ends with 1 if the loss of this rank does not fall.
#include <torch/torch.h>
#include <zero/zero.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kBatch = 32;

constexpr const char* kConfig = R"({
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
  "zero_optimization": {"stage": 3},
  "libzero": {"shared_memory": false}
})";

struct ExpertsImpl : torch::nn::Module {
  explicit ExpertsImpl(int64_t num_experts) {
    trunk = register_module("trunk", torch::nn::Linear(kWidth, kWidth));
    for (int64_t i = 0; i < num_experts; ++i) {
      experts.push_back(register_module(
          "expert" + std::to_string(i),
          torch::nn::Sequential(
              torch::nn::Linear(kWidth, 64),
              torch::nn::Tanh(),
              torch::nn::Linear(64, 1))));
    }
  }
  at::Tensor forward(const at::Tensor& x, int64_t domain) {
    return experts[static_cast<size_t>(domain)]->forward(trunk(x) + x);
  }
  torch::nn::Linear trunk{nullptr};
  std::vector<torch::nn::Sequential> experts;
};
TORCH_MODULE(Experts);

bool train(const zero::World& world) {
  const int64_t num_domains = world.size() + 1;
  torch::manual_seed(1);
  Experts net(num_domains);
  const at::Tensor truth = torch::randn({num_domains, kWidth, 1}) / 2;
  zero::Engine engine(world, net.ptr(), zero::Config::from_json(kConfig));

  const int64_t own = world.rank(); // and the next one
  const int num_batches = 80 + 40 * world.rank();
  torch::manual_seed(100 + static_cast<uint64_t>(world.rank()));
  double first = 0; // mean losses of the first and the last ten batches
  double last = 0;
  for (int i = 0; i < num_batches; ++i) {
    const int64_t domain = own + i % 2;
    const at::Tensor x = torch::randn({kBatch, kWidth});
    const at::Tensor y = x.matmul(truth[domain]);
    const at::Tensor loss = torch::mse_loss(net->forward(x, domain), y);
    engine.backward(loss);
    engine.step();
    first += i < 10 ? loss.item<double>() / 10 : 0;
    last += i >= num_batches - 10 ? loss.item<double>() / 10 : 0;
  }
  std::printf(
      "experts %d and %d: loss %.2f -> %.2f in %d batches\n",
      static_cast<int>(own),
      static_cast<int>(own) + 1,
      first,
      last,
      num_batches);
  std::fflush(stdout);

  engine.join();
  std::printf(
      "after %d updates all ranks have joined\n",
      static_cast<int>(engine.global_step()));
  return last < 0.5 * first;
}

} // namespace

int main() {
  try {
    return train(zero::init()) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

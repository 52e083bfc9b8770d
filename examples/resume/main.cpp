// A training that goes on where it was interrupted, with any number of ranks:
// it trains half of its updates, or the rest of them.
//
//   zero run -n 2 build/bin/resume FOLDER     # updates 1 to 30
//   zero run -n 3 build/bin/resume FOLDER     # 31 to 60
//
// Prints, on rank 0, the first and the second time:
//
//   begins                                    goes on from update 30
//   update  30: loss 0.22                     update  60: loss 0.20
//
// Ends with 1 if the loss is not below what it was when it began.
#include <torch/torch.h>
#include <zero/zero.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

namespace {

constexpr int64_t kInputs = 16;
constexpr int64_t kSamples = 1200;
constexpr int64_t kBatch = 24; // of all ranks together
constexpr int64_t kUpdates = 30; // each time

bool train(const zero::World& world, const std::string& folder) {
  torch::manual_seed(1);
  torch::nn::Sequential net(
      torch::nn::Linear(kInputs, 64),
      torch::nn::Tanh(),
      torch::nn::Linear(64, 1));
  const at::Tensor x = torch::randn({kSamples, kInputs});
  const at::Tensor y = x.matmul(torch::randn({kInputs, 1})).tanh();

  zero::Config config;
  config.zero_optimization.stage = 3;
  config.optimizer.lr = 3e-3;
  zero::Engine engine(world, net.ptr(), config);
  zero::Sampler sampler(kSamples);
  const auto loss_of_all = [&] {
    const torch::NoGradGuard no_grad;
    return torch::mse_loss(net->forward(x), y).item<double>();
  };
  const double before = loss_of_all();

  if (std::filesystem::exists(folder)) {
    const auto loaded = engine.load(folder);
    sampler.restore(loaded.sampler.value());
    if (world.rank() == 0) {
      std::printf("goes on from update %d\n", static_cast<int>(loaded.step));
    }
  } else if (world.rank() == 0) {
    std::printf("begins\n");
  }
  world.barrier(); // nobody saves before all have looked

  const int64_t end = engine.global_step() + kUpdates;
  while (engine.global_step() < end) {
    const auto samples =
        torch::tensor(sampler.next(world, kBatch / world.size()));
    engine.backward(torch::mse_loss(
        net->forward(x.index_select(0, samples)), y.index_select(0, samples)));
    engine.step();
    if (engine.global_step() % 10 == 0) {
      engine.save_async(folder, {.sampler = sampler.state()});
    }
  }
  const double after = loss_of_all();
  if (world.rank() == 0) {
    std::printf("update %3d: loss %.2f\n", static_cast<int>(end), after);
  }
  return after < before;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "Usage: resume FOLDER\n");
    return 2;
  }
  try {
    return train(zero::init(), argv[1]) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

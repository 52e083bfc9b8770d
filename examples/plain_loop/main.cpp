// A plain training loop with ZeRO: an MLP learns what a fixed network says of
// random points. Each rank has points of its own. The stage is the
// configuration's: 2 unless a file says otherwise, and the losses are the same
// at every stage.
//
//   zero run -n 2 build/bin/plain_loop
//   zero run -n 2 build/bin/plain_loop examples/plain_loop/zero.json
//   mpirun -n 2 --host a,b --bind-to none build/bin/plain_loop   # on two hosts
//
// Prints, on rank 0:
//
//   stage 2 on 2 ranks
//   update  20: loss 0.97, gradient norm 1.41, lr 0.0030
//   ...
//   update 100: loss 0.37, gradient norm 1.69, lr 0.0030
//   loss 2.30 -> 0.37
//
// Ends with 1 if the loss does not fall.
#include <torch/torch.h>
#include <zero/zero.h>

#include <cstdio>
#include <exception>

namespace {

constexpr int64_t kInputs = 32;
constexpr int64_t kClasses = 10;
constexpr int64_t kBatch = 64;
constexpr int64_t kUpdates = 100;

constexpr const char* kDefault = R"({
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
  "zero_optimization": {"stage": 2}
})";

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(kInputs, 256));
    second = register_module("second", torch::nn::Linear(256, 256));
    head = register_module("head", torch::nn::Linear(256, kClasses));
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(torch::relu(second(torch::relu(first(x)))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, head{nullptr};
};
TORCH_MODULE(Net);

double mean_over_ranks(const zero::World& world, double value) {
  at::Tensor mean = torch::full({1}, value, torch::kDouble);
  world.communicator().all_reduce(mean, zero::ReduceOp::mean).wait();
  return mean.item<double>();
}

bool train(const zero::World& world, const zero::Config& config) {
  torch::manual_seed(1);
  Net net;
  const at::Tensor teacher = torch::randn({kInputs, kClasses});
  zero::Engine engine(world, net.ptr(), config);

  torch::manual_seed(100 + static_cast<uint64_t>(world.rank()));
  double first_loss = 0;
  double last_loss = 0;
  while (engine.global_step() < kUpdates) {
    const at::Tensor x = torch::randn({kBatch, kInputs});
    const at::Tensor y = x.matmul(teacher).argmax(1);

    const at::Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
    engine.backward(loss);
    const zero::StepResult result = engine.step();

    if (!result.updated) {
      continue; // gradients accumulate
    }
    last_loss = mean_over_ranks(world, loss.item<double>());
    first_loss = result.step == 1 ? last_loss : first_loss;
    if (world.rank() == 0 && result.step % 20 == 0) {
      std::printf(
          "update %3d: loss %.2f, gradient norm %.2f, lr %.4f\n",
          static_cast<int>(result.step),
          last_loss,
          result.grad_norm,
          result.lr);
    }
  }
  if (world.rank() == 0) {
    std::printf("loss %.2f -> %.2f\n", first_loss, last_loss);
  }
  return last_loss < 0.5 * first_loss;
}

} // namespace

int main(int argc, char** argv) {
  try {
    const zero::World world = zero::init();
    const auto config = argc > 1 ? zero::Config::from_file(argv[1])
                                 : zero::Config::from_json(kDefault);
    if (world.rank() == 0) {
      std::printf(
          "stage %d on %d ranks\n",
          config.zero_optimization.stage,
          world.size());
    }
    return train(world, config) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

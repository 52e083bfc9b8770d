// Stage 3 of a transformer: an encoder learns which of four markers is hidden
// in a sequence. Ranks share no memory, as if each had a machine of its own:
// every one holds half of the parameters, gradients and optimizer state, and
// fetches what an operator needs when it needs it. The model knows nothing of
// that. At the end rank 0 alone evaluates: reading is no collective.
//
//   zero run -n 2 build/bin/transformer
//
// Prints:
//
//   [0] 605572 parameters, 9689152 bytes with gradients and Adam
//   [0] update  20: loss 0.14
//   ...
//   [0] holds parameters 1211168, gradients 1211168, optimizer 2422336
//   [0] has gathered 1162752 at most, buffers 6291456, spilled 0
//   [0] the last update received 2994704 bytes, and 16 of control
//   [1] ...
//   [0] finds 256 of 256 markers
//
// What is received depends a little on timing: it is gathered ahead of need.
//
// Ends with 1 if the loss does not fall.
#include <torch/torch.h>
#include <zero/zero.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <utility>

namespace {

constexpr int64_t kVocabulary = 64;
constexpr int64_t kMarkers = 4; // the first tokens of the vocabulary
constexpr int64_t kLength = 16;
constexpr int64_t kBatch = 32;
constexpr int64_t kWidth = 128;
constexpr int kUpdates = 60;

constexpr const char* kConfig = R"({
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
  "zero_optimization": {"stage": 3},
  "libzero": {"shared_memory": false, "gather_budget": "50%"}
})";

// As it would be without libzero.
struct ClassifierImpl : torch::nn::Module {
  ClassifierImpl() {
    tokens =
        register_module("tokens", torch::nn::Embedding(kVocabulary, kWidth));
    positions =
        register_module("positions", torch::nn::Embedding(kLength, kWidth));
    const auto layer = torch::nn::TransformerEncoderLayerOptions(kWidth, 4)
                           .dim_feedforward(4 * kWidth)
                           .dropout(0);
    encoder = register_module(
        "encoder",
        torch::nn::TransformerEncoder(
            torch::nn::TransformerEncoderOptions(layer, 3)));
    head = register_module("head", torch::nn::Linear(kWidth, kMarkers));
  }
  at::Tensor forward(const at::Tensor& ids) { // [length, batch]
    const at::Tensor places = torch::arange(ids.size(0)).unsqueeze(1);
    return head(encoder(tokens(ids) + positions(places)).mean(0));
  }
  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  torch::nn::TransformerEncoder encoder{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Classifier);

// Sequences with one marker each, and which one it is.
std::pair<at::Tensor, at::Tensor> batch(int64_t size) {
  at::Tensor ids = torch::randint(kMarkers, kVocabulary, {kLength, size});
  const at::Tensor marker = torch::randint(0, kMarkers, {size});
  const at::Tensor place = torch::randint(0, kLength, {size});
  ids.scatter_(0, place.unsqueeze(0), marker.unsqueeze(0));
  return {ids.to(torch::kLong), marker.to(torch::kLong)};
}

double mean_over_ranks(const zero::World& world, double value) {
  at::Tensor mean = torch::full({1}, value, torch::kDouble);
  world.communicator().all_reduce(mean, zero::ReduceOp::mean).wait();
  return mean.item<double>();
}

void print_account(const zero::World& world, const zero::Engine& engine) {
  const zero::MemoryAccount memory = engine.memory();
  const zero::EngineTraffic traffic = engine.traffic();
  for (int turn = 0; turn < world.size(); ++turn) {
    if (turn == world.rank()) {
      std::printf(
          "holds parameters %ld, gradients %ld, optimizer %ld\n"
          "has gathered %ld at most, buffers %ld, spilled %ld\n"
          "the last update received %ld bytes, and %ld of control\n",
          memory.parameters,
          memory.gradients,
          memory.optimizer,
          memory.gathered_peak,
          memory.buffers,
          memory.spilled,
          traffic.intra_node,
          traffic.control);
      std::fflush(stdout);
    }
    world.barrier();
  }
}

int64_t num_found(Classifier& net, int64_t size) {
  const torch::NoGradGuard no_grad;
  net->eval();
  const auto [ids, marker] = batch(size);
  const at::Tensor found = net->forward(ids).argmax(1);
  net->train();
  return (found == marker).sum().item<int64_t>();
}

bool train(const zero::World& world) {
  torch::manual_seed(1);
  Classifier net;
  int64_t numel = 0;
  for (const auto& parameter : net->parameters()) {
    numel += parameter.numel();
  }
  if (world.rank() == 0) {
    std::printf(
        "%ld parameters, %ld bytes with gradients and Adam\n",
        numel,
        16 * numel);
  }
  zero::Engine engine(world, net.ptr(), zero::Config::from_json(kConfig));

  torch::manual_seed(100 + static_cast<uint64_t>(world.rank()));
  double first_loss = 0;
  double last_loss = 0;
  for (int update = 1; update <= kUpdates; ++update) {
    engine.reset_traffic();
    const auto [ids, marker] = batch(kBatch);
    const at::Tensor loss =
        torch::cross_entropy_loss(net->forward(ids), marker);
    engine.backward(loss);
    engine.step();

    last_loss = mean_over_ranks(world, loss.item<double>());
    first_loss = update == 1 ? last_loss : first_loss;
    if (world.rank() == 0 && update % 20 == 0) {
      std::printf("update %3d: loss %.2f\n", update, last_loss);
      std::fflush(stdout);
    }
  }
  print_account(world, engine);
  if (world.rank() == 0) {
    constexpr int64_t kSize = 256;
    std::printf("finds %ld of %ld markers\n", num_found(net, kSize), kSize);
  }
  return last_loss < 0.5 * first_loss;
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
